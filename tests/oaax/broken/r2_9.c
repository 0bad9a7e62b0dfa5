/* Rule R2-9: a model from memory is read again after the load, when the caller has overwritten it. */
#define FAULT_KEEPS_THE_CALLERS_BYTES
#include "sound2.h"
