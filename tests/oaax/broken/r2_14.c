/* Rule R2-14: a wait for nothing ends with TIMEOUT. */
#define FAULT_TIMEOUT_CODE
#include "sound2.h"
