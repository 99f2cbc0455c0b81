#pragma once
#include <sqlite3.h>

/// Keeps a connection from checkpointing as the last one to close; Swift cannot call what takes a variable list.
static inline int marfa_sqlite_no_checkpoint_on_close(sqlite3 *database) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
