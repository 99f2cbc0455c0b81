#pragma once
// Nothing to call: the library is loaded into a program by LD_PRELOAD, and writes down what that program does to the disk.
// See DiskLog.c for the lines it writes.
