/* A sound OAAX 2.0 runtime in a few hundred lines, for two models: y = x + x, and z = x[index].
 * Each file beside it defines one FAULT_… and includes it: a runtime that breaks one rule. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "oaax_runtime.h"

#ifdef FAULT_EXPORTS_MORE
int helper_of_mine(void) { return 1; }
#endif

typedef struct Item {
  struct Item *next;
  int model;
  Tensors *tensors; /* of an output: NULL where the request failed */
  int id;
} Item;

typedef struct Queue {
  Item *first, **last;
  int length;
} Queue;

enum { MOST_MODELS = 4 };
#ifndef QUEUE_LENGTH
#define QUEUE_LENGTH 100000
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t input_came, output_came;
static pthread_t worker;
static int initialised, loaded, closing, in_flight;
static int is_gather[MOST_MODELS];
static Queue inputs, outputs;
static char error_text[256], info_text[256];
static int has_error;
#ifdef FAULT_KEEPS_THE_CALLERS_BYTES
static const unsigned char *kept;
#endif

static RuntimeStatus fail(RuntimeStatus status, const char *text, int number) {
  pthread_mutex_lock(&lock);
  snprintf(error_text, sizeof error_text, text, number);
  has_error = 1;
  pthread_mutex_unlock(&lock);
  return status;
}

static void push(Queue *queue, int model, int id, Tensors *tensors) {
  Item *item = calloc(1, sizeof *item);
  item->model = model;
  item->id = id;
  item->tensors = tensors;
  *queue->last = item;
  queue->last = &item->next;
  queue->length++;
}

static Item *pop(Queue *queue) {
  Item *item = queue->first;
  if (item == NULL) return NULL;
  queue->first = item->next;
  if (queue->first == NULL) queue->last = &queue->first;
  queue->length--;
  return item;
}

static void free_tensors(Tensors *tensors) {
  int i;
  if (tensors == NULL) return;
  for (i = 0; i < tensors->num_tensors; i++) {
    free(tensors->tensors[i].name);
    free(tensors->tensors[i].shape);
    free(tensors->tensors[i].data);
  }
  free(tensors->tensors);
  free(tensors);
}

static void drain(Queue *queue) {
  Item *item;
  while ((item = pop(queue)) != NULL) {
    free_tensors(item->tensors);
    free(item);
  }
}

static TensorDescriptor *find(Tensors *tensors, const char *name) {
  int i, named = 0;
  for (i = 0; i < tensors->num_tensors; i++) {
    if (tensors->tensors[i].name == NULL || tensors->tensors[i].name[0] == 0) continue;
    named = 1;
    if (strcmp(tensors->tensors[i].name, name) == 0) return &tensors->tensors[i];
  }
  return named ? NULL : &tensors->tensors[strcmp(name, "index") == 0];
}

/* The output of a request, or NULL where it fails. */
static Tensors *compute(int model, Tensors *input) {
  TensorDescriptor *x = find(input, "x"), *to;
  Tensors *output;
  int i;
#ifdef FAULT_KEEPS_THE_CALLERS_BYTES
  if (kept != NULL && kept[0] != 8) return NULL;
#endif
  if (is_gather[model]) {
    long long *index = find(input, "index")->data;
    for (i = 0; i < 2; i++)
      if (index[i] < 0 || index[i] > 2) return NULL;
  }
  output = calloc(1, sizeof *output);
  output->id = input->id;
  output->num_tensors = 1;
  to = output->tensors = calloc(1, sizeof *to);
  to->name = strdup(is_gather[model] ? "z" : "y");
  to->data_type = DATA_TYPE_FLOAT;
  to->rank = is_gather[model] ? 1 : 2;
  to->shape = calloc(2, sizeof(int));
  to->shape[0] = is_gather[model] ? 2 : 1;
  to->shape[1] = 4;
  to->data_size = is_gather[model] ? 8 : 16;
  to->data = malloc(to->data_size);
  for (i = 0; i < (is_gather[model] ? 2 : 4); i++)
    ((float *)to->data)[i] =
        is_gather[model] ? ((float *)x->data)[((long long *)find(input, "index")->data)[i]] : 2 * ((float *)x->data)[i];
  return output;
}

static void *work(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    Item *item;
    Tensors *output;
    while (!closing && inputs.first == NULL) pthread_cond_wait(&input_came, &lock);
    if (closing) break;
    item = pop(&inputs);
    pthread_mutex_unlock(&lock);
    output = compute(item->model, item->tensors);
    pthread_mutex_lock(&lock);
    in_flight--;
#ifdef FAULT_LOSES_AN_OUTPUT
    static int count;
    if (++count == 700) {
      free_tensors(output);
      free_tensors(item->tensors);
      free(item);
      continue;
    }
#endif
#ifdef FAULT_LOSES_FAILURES
    if (output == NULL) {
      free_tensors(item->tensors);
      free(item);
      continue;
    }
#endif
    push(&outputs, item->model, item->tensors->id, output);
    pthread_cond_signal(&output_came);
#ifndef FAULT_LEAKS_INPUTS
    free_tensors(item->tensors);
#endif
    free(item);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

RuntimeStatus runtime_init(Config config) {
  pthread_condattr_t clock;
  FILE *log = NULL;
  int i;
#ifdef FAULT_PRINTS
  printf("runtime 1.0 starting\n");
#endif
  if (initialised) return fail(RUNTIME_STATUS_ALREADY_INITIALIZED, "initialised already", 0);
#ifdef FAULT_STATE_OF_THE_PROCESS
  if (getenv("OAAX_RUNTIME_IS_UP")) return fail(RUNTIME_STATUS_ALREADY_INITIALIZED, "initialised already", 0);
  setenv("OAAX_RUNTIME_IS_UP", "1", 1);
#endif
#ifdef FAULT_POISONED_INIT
  initialised = 1;
#endif
  if (config.length > 0 && (config.keys == NULL || config.values == NULL))
    return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "no arrays", 0);
  for (i = 0; i < config.length; i++) {
    if (config.keys[i] == NULL || config.values[i] == NULL) continue;
    if (strcmp(config.keys[i], "log_level") == 0 && (config.values[i][0] < '0' || config.values[i][0] > '6'))
      return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "log_level is no level", 0);
    if (strcmp(config.keys[i], "log_file") == 0) log = fopen(config.values[i], "a");
  }
  if (log) fclose(log);
#ifdef FAULT_LEAKS_DESCRIPTORS
  if (open("/dev/null", O_RDONLY) < 0) return RUNTIME_STATUS_ERROR;
#endif
#ifdef FAULT_PINS_ITSELF
  Dl_info where;
  if (dladdr((void *)&lock, &where)) dlopen(where.dli_fname, RTLD_NOW | RTLD_NODELETE);
#endif
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&input_came, NULL);
  pthread_cond_init(&output_came, &clock);
  inputs.last = &inputs.first;
  outputs.last = &outputs.first;
  closing = in_flight = has_error = 0;
  initialised = 1;
  return RUNTIME_STATUS_SUCCESS;
}

static RuntimeStatus load_one(const ModelConfig *config, int place) {
  unsigned char *bytes = NULL;
  size_t size = 0;
  if (config->model_data != NULL) {
    size = config->model_size;
    bytes = malloc(size + 1);
    memcpy(bytes, config->model_data, size);
#ifdef FAULT_KEEPS_THE_CALLERS_BYTES
    kept = config->model_data;
#endif
  } else if (config->file_path != NULL) {
    FILE *file = fopen(config->file_path, "rb");
    if (file == NULL) return fail(RUNTIME_STATUS_FILE_NOT_FOUND, "no such file", 0);
    bytes = malloc(65537);
    size = fread(bytes, 1, 65536, file);
    fclose(file);
  } else {
    return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "neither path nor data", 0);
  }
#ifdef FAULT_TRUSTS_MODELS
  if (size < 60) abort();
#endif
  is_gather[place] = memmem(bytes, size, "Gather", 6) != NULL;
  if (size < 60 || bytes[0] != 8 || (!is_gather[place] && memmem(bytes, size, "Add", 3) == NULL)) {
    free(bytes);
    return fail(RUNTIME_STATUS_INVALID_MODEL, "this is no model", 0);
  }
  free(bytes);
  return RUNTIME_STATUS_SUCCESS;
}

RuntimeStatus runtime_load_models(int num_models, const ModelConfig *model_configs) {
  RuntimeStatus status;
  int i;
#ifdef FAULT_ARGUMENTS_FIRST
  if (num_models <= 0 || model_configs == NULL) return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "no models", 0);
#endif
  if (!initialised) return fail(RUNTIME_STATUS_NOT_INITIALIZED, "not initialised", 0);
  if (loaded) return fail(RUNTIME_STATUS_ALREADY_INITIALIZED, "loaded already", 0);
  if (num_models <= 0 || model_configs == NULL) return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "no models", 0);
  if (num_models > MOST_MODELS) return fail(RUNTIME_STATUS_NOT_IMPLEMENTED, "too many models", 0);
  for (i = 0; i < num_models; i++) {
#ifdef FAULT_IDS_REVERSED
    status = load_one(&model_configs[num_models - 1 - i], i);
#else
    status = load_one(&model_configs[i], i);
#endif
#ifdef FAULT_HALF_A_LOAD
    if (status != RUNTIME_STATUS_SUCCESS) loaded = i;
#endif
    if (status != RUNTIME_STATUS_SUCCESS) return status;
  }
  loaded = num_models;
  pthread_create(&worker, NULL, work, NULL);
  return RUNTIME_STATUS_SUCCESS;
}

static size_t bytes_of(const TensorDescriptor *tensor, size_t element) {
  size_t size = element;
  int i;
  for (i = 0; i < tensor->rank; i++) size *= (size_t)tensor->shape[i];
  return size;
}

static RuntimeStatus check(const char *name, TensorDescriptor *tensor, int type, int rank, int dim, size_t element) {
  if (tensor == NULL) return fail(RUNTIME_STATUS_INVALID_TENSOR, name, 0);
  if (tensor->rank < 0 || (tensor->rank > 0 && tensor->shape == NULL) || tensor->data == NULL)
    return fail(RUNTIME_STATUS_INVALID_TENSOR, "a tensor without shape or data", 0);
  if ((int)tensor->data_type != type) return fail(RUNTIME_STATUS_TENSOR_TYPE_MISMATCH, "another type, %d", type);
  if (tensor->data_size != bytes_of(tensor, element)) return fail(RUNTIME_STATUS_INVALID_TENSOR, "data_size is wrong", 0);
  if (tensor->rank != rank || tensor->shape[rank - 1] != dim)
    return fail(RUNTIME_STATUS_TENSOR_SHAPE_MISMATCH, "another shape", 0);
  return RUNTIME_STATUS_SUCCESS;
}

static RuntimeStatus accept_input(int model, Tensors *tensors) {
  RuntimeStatus status;
  int count = is_gather[model] ? 2 : 1;
  if (tensors->num_tensors != count || tensors->tensors == NULL)
    return fail(RUNTIME_STATUS_INVALID_TENSOR, "%d tensors are wanted", count);
  if (!is_gather[model]) return check("no x", find(tensors, "x"), DATA_TYPE_FLOAT, 2, 4, 4);
  status = check("no x", find(tensors, "x"), DATA_TYPE_FLOAT, 1, 3, 4);
  return status ? status : check("no index", find(tensors, "index"), DATA_TYPE_INT64, 1, 2, 8);
}

RuntimeStatus runtime_enqueue_input(int model_id, Tensors *input_tensors) {
  RuntimeStatus status;
  if (!initialised) return fail(RUNTIME_STATUS_NOT_INITIALIZED, "not initialised", 0);
#ifdef FAULT_TENSORS_FIRST
  if (input_tensors == NULL || input_tensors->tensors == NULL) return fail(RUNTIME_STATUS_INVALID_TENSOR, "no tensors", 0);
#endif
  if (!loaded) return fail(RUNTIME_STATUS_MODEL_NOT_LOADED, "no models", 0);
  if (model_id < 0 || model_id >= loaded) return fail(RUNTIME_STATUS_INVALID_MODEL_ID, "no model %d", model_id);
  if (input_tensors == NULL) return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "NULL", 0);
  status = accept_input(model_id, input_tensors);
#ifdef FAULT_FREES_WHAT_IT_REFUSES
  if (status == RUNTIME_STATUS_TENSOR_TYPE_MISMATCH) free_tensors(input_tensors);
#endif
  if (status != RUNTIME_STATUS_SUCCESS) return status;
#ifdef FAULT_WAITS_FOR_THE_INFERENCE
  usleep(30000);
#endif
  pthread_mutex_lock(&lock);
  if (inputs.length + outputs.length >= QUEUE_LENGTH) {
    pthread_mutex_unlock(&lock);
    return fail(RUNTIME_STATUS_ERROR, "the queue is full", 0);
  }
  in_flight++;
  push(&inputs, model_id, input_tensors->id, input_tensors);
  pthread_cond_signal(&input_came);
  pthread_mutex_unlock(&lock);
  return RUNTIME_STATUS_SUCCESS;
}

RuntimeStatus runtime_retrieve_output(int *model_id, Tensors **output_tensors, int timeout_ms) {
  struct timespec until;
  Item *item;
  if (!initialised) return fail(RUNTIME_STATUS_NOT_INITIALIZED, "not initialised", 0);
  if (model_id == NULL || output_tensors == NULL) return fail(RUNTIME_STATUS_INVALID_ARGUMENT, "NULL", 0);
  *output_tensors = NULL;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += timeout_ms % 1000 * 1000000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_nsec -= 1000000000L;
    until.tv_sec++;
  }
  pthread_mutex_lock(&lock);
  while (outputs.first == NULL && timeout_ms != 0 && !closing) {
    if (timeout_ms < 0)
      pthread_cond_wait(&output_came, &lock);
    else if (pthread_cond_timedwait(&output_came, &lock, &until) == ETIMEDOUT)
      break;
  }
  item = pop(&outputs);
  pthread_mutex_unlock(&lock);
#ifdef FAULT_TIMEOUT_CODE
  if (item == NULL) return RUNTIME_STATUS_TIMEOUT;
#endif
  if (item == NULL) return RUNTIME_STATUS_NO_OUTPUT_AVAILABLE;
  *model_id = item->model;
  *output_tensors = item->tensors;
  if (item->tensors == NULL) {
    int id = item->id;
    free(item);
    return fail(RUNTIME_STATUS_INFERENCE_ERROR, "request %d failed: an index is out of range", id);
  }
  free(item);
  return RUNTIME_STATUS_SUCCESS;
}

RuntimeStatus runtime_cleanup(void) {
  if (!initialised) return RUNTIME_STATUS_SUCCESS;
  pthread_mutex_lock(&lock);
  closing = 1;
  pthread_cond_broadcast(&input_came);
#ifndef FAULT_WAKES_NOBODY
  pthread_cond_broadcast(&output_came);
#endif
  pthread_mutex_unlock(&lock);
  if (loaded) pthread_join(worker, NULL);
  pthread_mutex_lock(&lock);
  drain(&inputs);
  drain(&outputs);
  loaded = initialised = has_error = 0;
#ifdef FAULT_STATE_OF_THE_PROCESS
  unsetenv("OAAX_RUNTIME_IS_UP");
#endif
  pthread_mutex_unlock(&lock);
  return RUNTIME_STATUS_SUCCESS;
}

const char *runtime_get_error(void) { return has_error ? error_text : NULL; }

#ifndef VERSION
#define VERSION "1.0.0"
#endif
const char *runtime_get_version(void) { return VERSION; }

const char *runtime_get_name(void) { return "OAAX sound C runtime"; }

#ifndef INFO
#define INFO "{\"loaded_models\":%d,\"requests_in_flight\":%d,\"backend_version\":\"1\"}"
#endif
const char *runtime_get_info(void) {
  if (!initialised) return NULL;
  pthread_mutex_lock(&lock);
  snprintf(info_text, sizeof info_text, INFO, loaded, in_flight);
  pthread_mutex_unlock(&lock);
  return info_text;
}

__attribute__((destructor)) static void at_unload(void) {
#ifdef FAULT_CRASHES_AT_THE_END
  if (initialised) raise(SIGSEGV);
#endif
  runtime_cleanup();
}
