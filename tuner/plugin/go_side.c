#include "_cgo_export.h"
#include "comm.h"

const struct go_side go_side = {tunergoOpen, tunergoAtTrigger, tunergoEndWait, tunergoDecide, tunergoClose};
