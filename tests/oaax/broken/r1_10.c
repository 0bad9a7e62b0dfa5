/* Rule R1-10: empty tensors bring the process down. */
#define FAULT_TRUSTS_TENSORS
#include "sound1.h"
