/* Rule R1-8: after destruction the runtime cannot be started again. */
#define FAULT_STARTS_ONCE
#include "sound1.h"
