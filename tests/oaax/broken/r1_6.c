/* Rule R1-6: outputs have no names. */
#define FAULT_NO_NAMES
#include "sound1.h"
