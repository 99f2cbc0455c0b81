// One call: what stands in this file is bound to the main actor, closures for C included (platform notes 8).
exitNow(runProgram())
