/* An OAAX 2.0 host, run by `oaax2.rs`: host LIBRARY FOLDER PART. Exits 0 when all of the part holds. */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "oaax_runtime.h"

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition,           \
              oaax.get_error && oaax.get_error() ? oaax.get_error() : "none");                  \
      _exit(1);                                                                                 \
    }                                                                                           \
  } while (0)

static struct {
  RuntimeStatus (*init)(Config);
  RuntimeStatus (*load)(int, const ModelConfig *);
  RuntimeStatus (*enqueue)(int, Tensors *);
  RuntimeStatus (*retrieve)(int *, Tensors **, int);
  RuntimeStatus (*cleanup)(void);
  const char *(*get_error)(void);
  const char *(*get_version)(void);
  const char *(*get_name)(void);
  const char *(*get_info)(void);
} oaax;

static const char *library_path, *folder;
static void *library;

static void open_library(void) {
  library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
#define FIND(field, name) CHECK((*(void **)&oaax.field = dlsym(library, name)) != NULL)
  FIND(init, "runtime_init");
  FIND(load, "runtime_load_models");
  FIND(enqueue, "runtime_enqueue_input");
  FIND(retrieve, "runtime_retrieve_output");
  FIND(cleanup, "runtime_cleanup");
  FIND(get_error, "runtime_get_error");
  FIND(get_version, "runtime_get_version");
  FIND(get_name, "runtime_get_name");
  FIND(get_info, "runtime_get_info");
}

static Config no_config(void) {
  Config config = {0, NULL, NULL};
  return config;
}

static Config one_key(const char **key, const char **value) {
  Config config = {1, NULL, NULL};
  config.keys = key;
  config.values = value;
  return config;
}

static RuntimeStatus init_with(const char *key, const char *value) {
  return oaax.init(one_key(&key, &value));
}

static ModelConfig model_file(const char *name) {
  ModelConfig config;
  char *path = malloc(4096);
  memset(&config, 0, sizeof config);
  snprintf(path, 4096, "%s/%s", folder, name);
  config.file_path = path;
  return config;
}

static RuntimeStatus load_one(const char *name) {
  ModelConfig config = model_file(name);
  RuntimeStatus status = oaax.load(1, &config);
  memset((char *)config.file_path, 'x', strlen(config.file_path)); /* the runtime must not need it any more */
  free((char *)config.file_path);
  return status;
}

static void set_tensor(TensorDescriptor *tensor, const char *name, int type, int n, const void *data, size_t bytes) {
  tensor->name = name ? strdup(name) : NULL;
  tensor->data_type = (TensorElementType)type;
  tensor->rank = 1;
  tensor->shape = malloc(sizeof(int));
  tensor->shape[0] = n;
  tensor->data_size = bytes;
  tensor->data = malloc(bytes ? bytes : 1);
  memcpy(tensor->data, data, bytes);
}

static Tensors *new_tensors(int id, int count) {
  Tensors *tensors = malloc(sizeof *tensors);
  tensors->id = id;
  tensors->num_tensors = count;
  tensors->tensors = calloc((size_t)count, sizeof *tensors->tensors);
  return tensors;
}

static void free_tensors(Tensors *tensors) {
  int i;
  for (i = 0; i < tensors->num_tensors; i++) {
    free(tensors->tensors[i].name);
    free(tensors->tensors[i].shape);
    free(tensors->tensors[i].data);
  }
  free(tensors->tensors);
  free(tensors);
}

/* Input of scaled_sum: x = y = start + i. */
static Tensors *sum_input(int id, int n, float start) {
  Tensors *input = new_tensors(id, 2);
  float *numbers = malloc(sizeof(float) * (size_t)(n + 1));
  int i;
  for (i = 0; i < n; i++) numbers[i] = start + (float)i;
  set_tensor(&input->tensors[0], "y", 1, n, numbers, sizeof(float) * (size_t)n); /* matched by name */
  set_tensor(&input->tensors[1], "x", 1, n, numbers, sizeof(float) * (size_t)n);
  free(numbers);
  return input;
}

static void check_sum(Tensors *output, int id, int n, float start) {
  TensorDescriptor *z = output->tensors;
  int i;
  CHECK(output->id == id && output->num_tensors == 1);
  CHECK(strcmp(z->name, "z") == 0 && z->data_type == DATA_TYPE_FLOAT && z->rank == 1 && z->shape[0] == n);
  CHECK(z->data_size == sizeof(float) * (size_t)n);
  for (i = 0; i < n; i++) CHECK(((float *)z->data)[i] == (start + (float)i) * 1.5f);
  free_tensors(output);
}

/* Input of gather. */
static Tensors *gather_input(int id, long long last) {
  Tensors *input = new_tensors(id, 2);
  float x[3] = {10, 20, 30};
  long long index[2];
  index[0] = 1;
  index[1] = last;
  set_tensor(&input->tensors[0], NULL, 1, 3, x, sizeof x); /* no names: matched by order */
  set_tensor(&input->tensors[1], NULL, 7, 2, index, sizeof index);
  return input;
}

static Tensors *slow_input(int id, long long rounds) {
  Tensors *input = new_tensors(id, 1);
  set_tensor(&input->tensors[0], "limit", 7, 1, &rounds, sizeof rounds);
  input->tensors[0].rank = 0;
  return input;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  while (readdir(tasks) != NULL) count++;
  closedir(tasks);
  return count - 2;
}

static void layout(void) {
  CHECK(sizeof(TensorDescriptor) == 40 && offsetof(TensorDescriptor, data_type) == 8 && offsetof(TensorDescriptor, rank) == 12);
  CHECK(offsetof(TensorDescriptor, shape) == 16 && offsetof(TensorDescriptor, data_size) == 24 && offsetof(TensorDescriptor, data) == 32);
  CHECK(sizeof(Tensors) == 16 && offsetof(Tensors, num_tensors) == 4 && offsetof(Tensors, tensors) == 8);
  CHECK(sizeof(Config) == 24 && offsetof(Config, keys) == 8 && offsetof(Config, values) == 16);
  CHECK(sizeof(ModelConfig) == 48 && offsetof(ModelConfig, model_data) == 8 && offsetof(ModelConfig, config) == 24);
  CHECK(sizeof(RuntimeStatus) == 4 && sizeof(TensorElementType) == 4);
}

static void before_init(void) {
  int model = 7, major, minor, patch;
  Tensors *output = NULL;
  Tensors empty;
  memset(&empty, 0, sizeof empty);
  CHECK(sscanf(oaax.get_version(), "%d.%d.%d", &major, &minor, &patch) == 3);
  CHECK(oaax.get_name() != NULL && oaax.get_name() == oaax.get_name());
  CHECK(oaax.get_error() == NULL && oaax.get_info() == NULL);
  CHECK(oaax.load(0, NULL) == RUNTIME_STATUS_NOT_INITIALIZED);
  CHECK(oaax.enqueue(0, &empty) == RUNTIME_STATUS_NOT_INITIALIZED);
  CHECK(oaax.retrieve(&model, &output, 0) == RUNTIME_STATUS_NOT_INITIALIZED);
  CHECK(oaax.get_error() != NULL);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS && oaax.get_error() == NULL);
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS && oaax.get_info() == NULL);
  CHECK(oaax.get_version() != NULL && oaax.get_name() != NULL);
}

static void init(void) {
  const char *keys[4] = {"no_such_key", NULL, "log_level", "num_threads"};
  const char *values[4] = {"anything", "x", NULL, "2"};
  Config config = {3, NULL, NULL};
  char here[4096];
  CHECK(chdir(folder) == 0 && getcwd(here, sizeof here) != NULL);
  CHECK(oaax.init(config) == RUNTIME_STATUS_INVALID_ARGUMENT && oaax.get_error() != NULL);
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && oaax.get_error() == NULL);
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_ALREADY_INITIALIZED && oaax.get_info() != NULL);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  config.length = 4;
  config.keys = keys;
  config.values = values;
  CHECK(oaax.init(config) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(init_with("log_level", "debug") != RUNTIME_STATUS_SUCCESS && strstr(oaax.get_error(), "log_level") != NULL);
  CHECK(init_with("num_threads", "-3") != RUNTIME_STATUS_SUCCESS);
  CHECK(init_with("device_type", "TPU") == RUNTIME_STATUS_DEVICE_ERROR);
  CHECK(init_with("unknown", (const char *)-1) == RUNTIME_STATUS_SUCCESS); /* its value is not looked at */
  CHECK(oaax.get_error() == NULL && oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(init_with("log_file", "/no/such/folder/runtime.log") == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(init_with("log_file", "asked.log") == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.load(0, NULL) == RUNTIME_STATUS_INVALID_ARGUMENT && oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(access("asked.log", R_OK) == 0 && access("runtime.log", F_OK) != 0);
}

static void loading(void) {
  Tensors empty;
  ModelConfig configs[2];
  FILE *garbage;
  char path[4096];
  memset(&empty, 0, sizeof empty);
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.enqueue(0, &empty) == RUNTIME_STATUS_MODEL_NOT_LOADED);
  CHECK(strstr(oaax.get_info(), "\"loaded_models\":0") != NULL);
  CHECK(oaax.load(0, NULL) == RUNTIME_STATUS_INVALID_ARGUMENT);
  CHECK(oaax.load(-1, configs) == RUNTIME_STATUS_INVALID_ARGUMENT);
  CHECK(oaax.load(1, NULL) == RUNTIME_STATUS_INVALID_ARGUMENT);
  CHECK(load_one("missing.oaax") == RUNTIME_STATUS_FILE_NOT_FOUND && strstr(oaax.get_error(), "missing.oaax") != NULL);
  snprintf(path, sizeof path, "%s/garbage.oaax", folder);
  garbage = fopen(path, "w");
  fputs("this is no model", garbage);
  fclose(garbage);
  CHECK(load_one("garbage.oaax") == RUNTIME_STATUS_INVALID_MODEL);
  CHECK(load_one("cells.oaax") == RUNTIME_STATUS_NOT_IMPLEMENTED);
  CHECK(load_one("strings.oaax") == RUNTIME_STATUS_NOT_IMPLEMENTED);
  CHECK(load_one("wide.oaax") == RUNTIME_STATUS_NOT_IMPLEMENTED && strstr(oaax.get_error(), "2147483648") != NULL);
  memset(configs, 0, sizeof configs);
  CHECK(oaax.load(1, configs) == RUNTIME_STATUS_INVALID_ARGUMENT);
  configs[0] = model_file("scaled_sum.oaax");
  configs[1] = model_file("garbage.oaax");
  CHECK(oaax.load(2, configs) == RUNTIME_STATUS_INVALID_MODEL);
  CHECK(strstr(oaax.get_info(), "\"loaded_models\":0") != NULL && threads() == 1);
  CHECK(oaax.load(1, configs) == RUNTIME_STATUS_SUCCESS);
  CHECK(strstr(oaax.get_info(), "\"loaded_models\":1") != NULL);
  CHECK(oaax.load(1, configs) == RUNTIME_STATUS_ALREADY_INITIALIZED);
  CHECK(oaax.load(1, NULL) != RUNTIME_STATUS_SUCCESS);
  free((char *)configs[0].file_path);
  free((char *)configs[1].file_path);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void memory(void) {
  ModelConfig configs[2];
  FILE *file;
  unsigned char *bytes = malloc(64 << 20);
  const char *key = "num_threads", *value = "3";
  int model = -1;
  Tensors *output = NULL;
  configs[0] = model_file("gather.oaax");
  configs[1] = model_file("scaled_sum.oaax");
  file = fopen(configs[1].file_path, "rb");
  configs[1].model_size = fread(bytes, 1, 64 << 20, file);
  fclose(file);
  configs[1].model_data = bytes;
  configs[1].config = one_key(&key, &value);
  CHECK(init_with("num_threads", "1") == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.load(2, configs) == RUNTIME_STATUS_SUCCESS);
  memset(bytes, 0, configs[1].model_size);
  free(bytes);
  free((char *)configs[0].file_path);
  free((char *)configs[1].file_path);
  CHECK(strstr(oaax.get_info(), "\"threads\":3") != NULL && strstr(oaax.get_info(), "\"threads\":1") != NULL);
  CHECK(oaax.enqueue(1, sum_input(41, 5000, 2)) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS && model == 1);
  check_sum(output, 41, 5000, 2);
  CHECK(oaax.enqueue(0, gather_input(-5, -1)) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS && model == 0);
  CHECK(output->id == -5 && output->num_tensors == 2 && ((float *)output->tensors[0].data)[1] == 30);
  free_tensors(output);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void wrong_inputs(void) {
  Tensors *input = sum_input(1, 4, 0), empty;
  TensorDescriptor *x, *array;
  int shape[2] = {2, 2};
  int *kept;
  Tensors *output;
  int model;
  memset(&empty, 0, sizeof empty);
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("scaled_sum.oaax") == RUNTIME_STATUS_SUCCESS);
  x = &input->tensors[0];
  CHECK(oaax.enqueue(-1, input) == RUNTIME_STATUS_INVALID_MODEL_ID);
  CHECK(oaax.enqueue(1, input) == RUNTIME_STATUS_INVALID_MODEL_ID);
  CHECK(oaax.enqueue(0, NULL) == RUNTIME_STATUS_INVALID_ARGUMENT);
  CHECK(oaax.enqueue(0, &empty) == RUNTIME_STATUS_INVALID_TENSOR);
#define BAD(change, restore, status)           \
  do {                                         \
    change;                                    \
    CHECK(oaax.enqueue(0, input) == (status)); \
    restore;                                   \
  } while (0)
  BAD(input->num_tensors = 1, input->num_tensors = 2, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(input->num_tensors = INT_MAX, input->num_tensors = 2, RUNTIME_STATUS_INVALID_TENSOR);
  array = input->tensors;
  BAD(input->tensors = NULL, input->tensors = array, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->data_type = DATA_TYPE_INT32, x->data_type = DATA_TYPE_FLOAT, RUNTIME_STATUS_TENSOR_TYPE_MISMATCH);
  BAD(x->data_type = (TensorElementType)-9, x->data_type = DATA_TYPE_FLOAT, RUNTIME_STATUS_TENSOR_TYPE_MISMATCH);
  kept = x->shape;
  BAD((x->shape = shape, x->rank = 2), (x->shape = kept, x->rank = 1), RUNTIME_STATUS_TENSOR_SHAPE_MISMATCH);
  BAD((x->shape[0] = 3, x->data_size = 12), (x->shape[0] = 4, x->data_size = 16), RUNTIME_STATUS_TENSOR_SHAPE_MISMATCH);
  BAD(x->shape[0] = 3, x->shape[0] = 4, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->shape[0] = -4, x->shape[0] = 4, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->shape = NULL, x->shape = kept, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->rank = -1, x->rank = 1, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->data_size = 15, x->data_size = 16, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->data_size = (size_t)-1, x->data_size = 16, RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->name[0] = 'q', x->name[0] = 'y', RUNTIME_STATUS_INVALID_TENSOR);
  BAD(x->name[0] = 'x', x->name[0] = 'y', RUNTIME_STATUS_INVALID_TENSOR);
  CHECK(oaax.enqueue(0, input) == RUNTIME_STATUS_SUCCESS); /* it was the caller's all the time */
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS);
  check_sum(output, 1, 4, 0);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void queues(void) {
  int model, i, full = 0;
  Tensors *output = (Tensors *)1;
  double start, waited;
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("counting.oaax") == RUNTIME_STATUS_SUCCESS);
  start = now();
  CHECK(oaax.retrieve(&model, &output, 0) == RUNTIME_STATUS_NO_OUTPUT_AVAILABLE && output == NULL && now() - start < 0.02);
  start = now();
  CHECK(oaax.retrieve(&model, &output, 50) == RUNTIME_STATUS_NO_OUTPUT_AVAILABLE);
  waited = now() - start;
  CHECK(0.05 <= waited && waited < 0.5);
  CHECK(oaax.retrieve(NULL, &output, 0) == RUNTIME_STATUS_INVALID_ARGUMENT);
  CHECK(oaax.retrieve(&model, NULL, 0) == RUNTIME_STATUS_INVALID_ARGUMENT);
  start = now();
  CHECK(oaax.enqueue(0, slow_input(0, 3000000)) == RUNTIME_STATUS_SUCCESS);
  for (i = 1; i < 150; i++) CHECK(oaax.enqueue(0, slow_input(i, 1)) == RUNTIME_STATUS_SUCCESS);
  CHECK(now() - start < 0.05);
  CHECK(strstr(oaax.get_info(), "\"requests_in_flight\":1") != NULL);
  for (i = 0; i < 150; i++) {
    CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS && model == 0 && output->id == i);
    free_tensors(output);
  }
  CHECK(strstr(oaax.get_info(), "\"requests_in_flight\":0") != NULL);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(init_with("oaaxc.queue_depth", "3") == RUNTIME_STATUS_SUCCESS && load_one("counting.oaax") == RUNTIME_STATUS_SUCCESS);
  for (i = 0; i < 8 && !full; i++) {
    Tensors *input = slow_input(i, 1000000);
    if (oaax.enqueue(0, input) != RUNTIME_STATUS_SUCCESS) {
      full = 1;
      free_tensors(input);
    }
  }
  CHECK(full);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void *enqueue_many(void *number) {
  int thread = *(int *)number, i;
  for (i = 0; i < 1000; i++) {
    int id = thread * 1000 + i;
    Tensors *input = id % 2 == 0 ? sum_input(id, 1 + id % 50, (float)id) : gather_input(id, id % 3);
    CHECK(oaax.enqueue(id % 2, input) == RUNTIME_STATUS_SUCCESS);
  }
  return NULL;
}

static void many_threads(void) {
  ModelConfig configs[2];
  pthread_t all[8];
  int numbers[8], i, model;
  char *seen = calloc(8000, 1);
  Tensors *output;
  configs[0] = model_file("scaled_sum.oaax");
  configs[1] = model_file("gather.oaax");
  CHECK(init_with("oaaxc.queue_depth", "10000") == RUNTIME_STATUS_SUCCESS && oaax.load(2, configs) == RUNTIME_STATUS_SUCCESS);
  for (i = 0; i < 8; i++) {
    numbers[i] = i;
    CHECK(pthread_create(&all[i], NULL, enqueue_many, &numbers[i]) == 0);
  }
  for (i = 0; i < 8000; i++) {
    int id;
    CHECK(oaax.retrieve(&model, &output, 10000) == RUNTIME_STATUS_SUCCESS);
    id = output->id;
    CHECK(0 <= id && id < 8000 && !seen[id] && model == id % 2);
    seen[id] = 1;
    if (model == 0) {
      check_sum(output, id, 1 + id % 50, (float)id);
    } else {
      CHECK(((float *)output->tensors[0].data)[1] == (float)(10 + 10 * (id % 3)));
      free_tensors(output);
    }
  }
  for (i = 0; i < 8; i++) pthread_join(all[i], NULL);
  free(seen);
  free((char *)configs[0].file_path);
  free((char *)configs[1].file_path);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void failure(void) {
  int model = -1;
  Tensors *output = (Tensors *)1;
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("gather.oaax") == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.enqueue(0, gather_input(77, 1000)) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_INFERENCE_ERROR && model == 0 && output == NULL);
  CHECK(strstr(oaax.get_error(), "request 77 of model 0") != NULL && strstr(oaax.get_error(), "index 1000") != NULL);
  CHECK(strstr(oaax.get_info(), "\"failures\":[{\"model\":0,\"id\":77,") != NULL);
  CHECK(oaax.enqueue(0, gather_input(78, 0)) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS && output->id == 78);
  free_tensors(output);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
}

static void *wait_for_ever(void *status) {
  int model;
  Tensors *output;
  *(int *)status = (int)oaax.retrieve(&model, &output, -1);
  return NULL;
}

static long resident(void) {
  long size, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(fscanf(file, "%ld %ld", &size, &pages) == 2);
  fclose(file);
  return pages;
}

static int descriptors(void) {
  DIR *open = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(open) != NULL) count++;
  closedir(open);
  return count;
}

static void cleanup(void) {
  pthread_t waiting;
  int status = -1, i, model, opened = descriptors();
  long before = 0;
  Tensors *output;
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("counting.oaax") == RUNTIME_STATUS_SUCCESS);
  CHECK(pthread_create(&waiting, NULL, wait_for_ever, &status) == 0);
  CHECK(oaax.enqueue(0, slow_input(1, 2000000)) == RUNTIME_STATUS_SUCCESS);
  CHECK(pthread_join(waiting, NULL) == 0 && status == RUNTIME_STATUS_SUCCESS);
  CHECK(pthread_create(&waiting, NULL, wait_for_ever, &status) == 0);
  CHECK(oaax.retrieve(&model, &output, 20) == RUNTIME_STATUS_NO_OUTPUT_AVAILABLE); /* the other thread waits by now */
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
  CHECK(pthread_join(waiting, NULL) == 0);
  CHECK(status == RUNTIME_STATUS_NO_OUTPUT_AVAILABLE || status == RUNTIME_STATUS_NOT_INITIALIZED);
  for (i = 0; i < 100; i++) {
    CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("scaled_sum.oaax") == RUNTIME_STATUS_SUCCESS);
    CHECK(oaax.enqueue(0, sum_input(i, 2000, 1)) == RUNTIME_STATUS_SUCCESS);
    CHECK(oaax.enqueue(0, sum_input(-1, 2000, 1)) == RUNTIME_STATUS_SUCCESS); /* never retrieved */
    CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS);
    check_sum(output, i, 2000, 1);
    CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS && oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
    CHECK(threads() == 1 && oaax.get_error() == NULL);
    if (i == 20) before = resident();
  }
  CHECK(descriptors() == opened);
  CHECK(resident() - before < 512); /* pages: 2 MiB over 80 rounds of a 3 MiB model */
}

static void one_cycle(void) {
  int model;
  Tensors *output;
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("scaled_sum.oaax") == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.enqueue(0, sum_input(3, 9000, 1)) == RUNTIME_STATUS_SUCCESS);
  CHECK(oaax.retrieve(&model, &output, -1) == RUNTIME_STATUS_SUCCESS);
  check_sum(output, 3, 9000, 1);
  CHECK(load_one("missing.oaax") != RUNTIME_STATUS_SUCCESS && oaax.get_info() != NULL);
}

static void check_unmapped(void) {
  memset(&oaax, 0, sizeof oaax);
  CHECK(dlclose(library) == 0);
  CHECK(dlopen(library_path, RTLD_NOW | RTLD_NOLOAD) == NULL);
  CHECK(threads() == 1);
}

static void unload(void) {
  int round;
  for (round = 0; round < 3; round++) {
    one_cycle();
    CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS);
    check_unmapped();
    open_library();
  }
}

static void unload_without_cleanup(void) {
  one_cycle();
  check_unmapped();
}

static void exit_without_cleanup(void) {
  one_cycle();
  CHECK(oaax.enqueue(0, sum_input(4, 100000, 1)) == RUNTIME_STATUS_SUCCESS);
}

static void info(void) {
  const char *text;
  CHECK(oaax.init(no_config()) == RUNTIME_STATUS_SUCCESS && load_one("scaled_sum.oaax") == RUNTIME_STATUS_SUCCESS);
  text = oaax.get_info();
  CHECK(text[0] == '{' && text[strlen(text) - 1] == '}');
  CHECK(strstr(text, "\"loaded_models\":1,\"requests_in_flight\":0,\"backend_version\":\"") != NULL);
  CHECK(strstr(text, "\"inputs\":[{\"name\":\"x\",\"dtype\":\"float\",\"kind\":\"tensor\",\"shape\":[-1],") != NULL);
  CHECK(oaax.cleanup() == RUNTIME_STATUS_SUCCESS && oaax.get_info() == NULL);
}

int main(int argc, char **argv) {
  size_t i;
  static const struct {
    const char *name;
    void (*run)(void);
  } parts[] = {
      {"layout", layout}, {"before_init", before_init}, {"init", init}, {"loading", loading},
      {"memory", memory}, {"wrong_inputs", wrong_inputs}, {"queues", queues}, {"many_threads", many_threads},
      {"failure", failure}, {"cleanup", cleanup}, {"unload", unload}, {"info", info},
      {"unload_without_cleanup", unload_without_cleanup}, {"exit_without_cleanup", exit_without_cleanup},
  };
  if (argc != 4) return 2;
  library_path = argv[1];
  folder = argv[2];
  open_library();
  for (i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (strcmp(parts[i].name, argv[3]) == 0) {
      parts[i].run();
      return 0;
    }
  }
  return 2;
}
