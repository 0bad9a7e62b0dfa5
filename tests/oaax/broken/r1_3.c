/* Rule R1-3: the values of unknown keys are read. */
#define FAULT_READS_EVERY_VALUE
#include "sound1.h"
