/* Rule R2-23: twenty requests may be outstanding, upstream's hosts send forty. */
#define QUEUE_LENGTH 20
#include "sound2.h"
