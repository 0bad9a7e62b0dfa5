/* Rule R1-1: a helper is exported beside the nine functions. */
#define FAULT_EXPORTS_MORE
#include "sound1.h"
