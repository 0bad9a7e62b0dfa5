/* Rule R2-12: enqueue comes back when the inference is done. */
#define FAULT_WAITS_FOR_THE_INFERENCE
#include "sound2.h"
