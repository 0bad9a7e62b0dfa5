/* Rule R2-7: enqueue looks at the tensors before it says that no model is loaded. */
#define FAULT_TENSORS_FIRST
#include "sound2.h"
