/* An OAAX 1.x host, run by `oaax1.rs`: host LIBRARY FOLDER PART. Exits 0 when all of the part holds. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "oaax1_runtime.h"

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition,           \
              oaax.error_message ? oaax.error_message() : "none");                              \
      _exit(1);                                                                                 \
    }                                                                                           \
  } while (0)

static struct {
  int (*initialization)(void);
  int (*with_args)(int, const char **, const void **);
  int (*model_loading)(const char *);
  int (*send)(tensors_struct *);
  int (*receive)(tensors_struct **);
  int (*destruction)(void);
  const char *(*error_message)(void);
  const char *(*version)(void);
  const char *(*name)(void);
} oaax;

static const char *library_path, *folder;
static void *library;

static void open_library(void) {
  library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
#define FIND(field, symbol) CHECK((*(void **)&oaax.field = dlsym(library, symbol)) != NULL)
  FIND(initialization, "runtime_initialization");
  FIND(with_args, "runtime_initialization_with_args");
  FIND(model_loading, "runtime_model_loading");
  FIND(send, "send_input");
  FIND(receive, "receive_output");
  FIND(destruction, "runtime_destruction");
  FIND(error_message, "runtime_error_message");
  FIND(version, "runtime_version");
  FIND(name, "runtime_name");
}

static int load(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return oaax.model_loading(path);
}

static int init_with(const char *key, const void *value) { return oaax.with_args(1, &key, &value); }

static tensors_struct *new_tensors(size_t count) {
  tensors_struct *tensors = malloc(sizeof *tensors);
  tensors->num_tensors = count;
  tensors->names = calloc(count, sizeof *tensors->names);
  tensors->data_types = calloc(count, sizeof *tensors->data_types);
  tensors->ranks = calloc(count, sizeof *tensors->ranks);
  tensors->shapes = calloc(count, sizeof *tensors->shapes);
  tensors->data = calloc(count, sizeof *tensors->data);
  return tensors;
}

static void set(tensors_struct *tensors, size_t index, const char *name, int type, size_t n, const void *data, size_t bytes) {
  tensors->names[index] = name ? strdup(name) : NULL;
  tensors->data_types[index] = (tensor_data_type)type;
  tensors->ranks[index] = 1;
  tensors->shapes[index] = malloc(sizeof(size_t));
  tensors->shapes[index][0] = n;
  tensors->data[index] = malloc(bytes ? bytes : 1);
  memcpy(tensors->data[index], data, bytes);
}

/* In the order that hosts of 1.x use: types, ranks, data, shapes, names, struct. */
static void free_tensors(tensors_struct *tensors) {
  size_t i;
  free(tensors->data_types);
  free(tensors->ranks);
  for (i = 0; tensors->data && i < tensors->num_tensors; i++) free(tensors->data[i]);
  free(tensors->data);
  for (i = 0; tensors->shapes && i < tensors->num_tensors; i++) free(tensors->shapes[i]);
  free(tensors->shapes);
  for (i = 0; tensors->names && i < tensors->num_tensors; i++) free(tensors->names[i]);
  free(tensors->names);
  free(tensors);
}

static tensors_struct *sum_input(size_t n, float start) {
  tensors_struct *input = new_tensors(2);
  float *numbers = malloc(sizeof(float) * (n + 1));
  size_t i;
  for (i = 0; i < n; i++) numbers[i] = start + (float)i;
  set(input, 0, "y", DATA_TYPE_FLOAT, n, numbers, sizeof(float) * n); /* matched by name */
  set(input, 1, "x", DATA_TYPE_FLOAT, n, numbers, sizeof(float) * n);
  free(numbers);
  return input;
}

static void check_sum(tensors_struct *output, size_t n, float start) {
  size_t i;
  CHECK(output != NULL && output->num_tensors == 1 && output->names != NULL && strcmp(output->names[0], "z") == 0);
  CHECK(output->data_types[0] == DATA_TYPE_FLOAT && output->ranks[0] == 1 && output->shapes[0][0] == n);
  for (i = 0; i < n; i++) CHECK(((float *)output->data[0])[i] == (start + (float)i) * 1.5f);
  free_tensors(output);
}

static tensors_struct *gather_input(long long last) {
  tensors_struct *input = new_tensors(2);
  float x[3] = {10, 20, 30};
  long long index[2];
  index[0] = 1;
  index[1] = last;
  set(input, 0, NULL, DATA_TYPE_FLOAT, 3, x, sizeof x); /* no names: matched by order */
  set(input, 1, NULL, DATA_TYPE_INT64, 2, index, sizeof index);
  return input;
}

static tensors_struct *slow_input(long long rounds) {
  tensors_struct *input = new_tensors(1);
  set(input, 0, "limit", DATA_TYPE_INT64, 1, &rounds, sizeof rounds);
  input->ranks[0] = 0;
  return input;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static tensors_struct *receive(void) {
  tensors_struct *output = NULL;
  double start = now();
  while (oaax.receive(&output) != 0) CHECK(now() - start < 20);
  CHECK(output != NULL);
  return output;
}

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  while (readdir(tasks) != NULL) count++;
  closedir(tasks);
  return count - 2;
}

static void layout(void) {
  CHECK(sizeof(tensors_struct) == 48 && offsetof(tensors_struct, names) == 8 && offsetof(tensors_struct, data_types) == 16);
  CHECK(offsetof(tensors_struct, ranks) == 24 && offsetof(tensors_struct, shapes) == 32 && offsetof(tensors_struct, data) == 40);
  CHECK(sizeof(tensor_data_type) == 4);
}

static void init(void) {
  const char *keys[4] = {"no_such_key", "log_level", "num_threads", NULL};
  const void *values[4] = {(const void *)-1, "3", "2", "x"}; /* the first value is not to be looked at */
  int number = 2;
  CHECK(chdir(folder) == 0);
  CHECK(oaax.initialization() == 0);
  CHECK(oaax.initialization() != 0 && oaax.with_args(0, NULL, NULL) != 0);
  CHECK(oaax.destruction() == 0);
  CHECK(oaax.with_args(4, keys, values) == 0 && oaax.destruction() == 0);
  CHECK(oaax.with_args(0, NULL, NULL) == 0 && oaax.destruction() == 0);
  CHECK(oaax.with_args(2, NULL, NULL) != 0 && oaax.with_args(-1, keys, values) != 0);
  CHECK(init_with("log_level", "debug") != 0 && strstr(oaax.error_message(), "log_level") != NULL);
  CHECK(init_with("num_threads", &number) == 0 && oaax.destruction() == 0); /* one public host gives int * */
  CHECK(init_with("log_file", "/no/such/folder/runtime.log") == 0 && oaax.destruction() == 0);
  CHECK(access("runtime.log", F_OK) != 0);
}

static void loading(void) {
  CHECK(load("scaled_sum.oaax") != 0 && oaax.model_loading(NULL) != 0);
  CHECK(oaax.initialization() == 0);
  CHECK(load("missing.oaax") != 0 && strstr(oaax.error_message(), "missing.oaax") != NULL);
  CHECK(oaax.model_loading(NULL) != 0 && load("cells.oaax") != 0 && load("half.oaax") != 0);
  CHECK(strstr(oaax.error_message(), "float16") != NULL && threads() == 1);
  CHECK(load("scaled_sum.oaax") == 0);
  CHECK(load("scaled_sum.oaax") != 0); /* one model an instance */
  CHECK(oaax.send(sum_input(5, 1)) == 0);
  check_sum(receive(), 5, 1);
  CHECK(oaax.destruction() == 0);
}

static void wrong_inputs(void) {
  tensors_struct *input = sum_input(4, 0), empty;
  void *kept;
  int i;
  memset(&empty, 0, sizeof empty);
  CHECK(oaax.send(&empty) != 0 && oaax.send(NULL) != 0);
  CHECK(oaax.initialization() == 0 && oaax.send(input) != 0 && load("scaled_sum.oaax") == 0);
  CHECK(oaax.send(NULL) != 0 && oaax.send(&empty) != 0); /* the illustrative host sends empty tensors */
#define BAD(place, wrong, right) \
  do {                           \
    place = wrong;               \
    CHECK(oaax.send(input) != 0);\
    place = right;               \
  } while (0)
  BAD(input->num_tensors, 1, 2);
  BAD(input->num_tensors, (size_t)-1, 2);
  BAD(input->data_types[0], DATA_TYPE_INT32, DATA_TYPE_FLOAT);
  BAD(input->data_types[0], (tensor_data_type)10, DATA_TYPE_FLOAT);
  BAD(input->ranks[0], 2000, 1);
  BAD(input->ranks[0], 0, 1);
  BAD(input->shapes[0][0], 3, 4);
  BAD(input->shapes[0][0], SIZE_MAX, 4);
  BAD(input->names[0][0], 'q', 'y');
  BAD(input->names[0][0], 'x', 'y');
#define WITHOUT(place)            \
  do {                            \
    kept = (void *)(place);       \
    BAD(place, NULL, kept);       \
  } while (0)
  WITHOUT(input->data_types);
  WITHOUT(input->ranks);
  WITHOUT(input->shapes);
  WITHOUT(input->data);
  WITHOUT(input->shapes[0]);
  WITHOUT(input->data[0]);
  CHECK(oaax.send(input) == 0); /* it was the caller's all the time */
  check_sum(receive(), 4, 0);
  for (i = 0; i < 150; i++) CHECK(oaax.send(sum_input(50, (float)i)) == 0);
  for (i = 0; i < 150; i++) check_sum(receive(), 50, (float)i);
  CHECK(oaax.destruction() == 0);
}

static void receiving(void) {
  tensors_struct *output = (tensors_struct *)1;
  double start;
  CHECK(oaax.receive(&output) != 0);
  CHECK(oaax.initialization() == 0 && oaax.receive(&output) != 0 && load("counting.oaax") == 0);
  start = now();
  CHECK(oaax.receive(&output) != 0 && output == NULL && now() - start <= 0.1);
  CHECK(oaax.receive(NULL) != 0);
  CHECK(oaax.send(slow_input(3)) == 0); /* a scalar in, one element out */
  output = receive();
  CHECK(output->num_tensors == 1 && strcmp(output->names[0], "out") == 0 && output->ranks[0] == 1);
  CHECK(((long long *)output->data[0])[0] == 3);
  free_tensors(output);
  CHECK(oaax.destruction() == 0);
}

static void *send_many(void *unused) {
  int i;
  for (i = 0; i < 1000; i++) {
    tensors_struct *input = sum_input((size_t)(1 + i % 60), (float)i);
    while (oaax.send(input) != 0) CHECK(strstr(oaax.error_message(), "full") != NULL);
  }
  return unused;
}

/* One thread sends, one receives; outputs come in the order of the inputs, which is all that hosts have to tell them apart. */
static void two_threads(void) {
  pthread_t sender;
  int i;
  CHECK(oaax.initialization() == 0 && load("scaled_sum.oaax") == 0);
  CHECK(pthread_create(&sender, NULL, send_many, NULL) == 0);
  for (i = 0; i < 1000; i++) check_sum(receive(), (size_t)(1 + i % 60), (float)i);
  pthread_join(sender, NULL);
  CHECK(oaax.destruction() == 0);
}

static void failure(void) {
  tensors_struct *output;
  int i, failed = 0;
  double start = now();
  CHECK(oaax.initialization() == 0 && load("gather.oaax") == 0);
  CHECK(oaax.send(gather_input(2)) == 0 && oaax.send(gather_input(1000)) == 0 && oaax.send(gather_input(0)) == 0);
  for (i = 0; i < 2;) {
    CHECK(now() - start < 20);
    if (oaax.receive(&output) == 0) {
      CHECK(((float *)output->data[0])[1] == (i == 0 ? 30 : 10) && failed == i);
      free_tensors(output);
      i++;
    } else if (strstr(oaax.error_message(), "request 1 ") != NULL) {
      CHECK(i == 1 && strstr(oaax.error_message(), "index 1000") != NULL);
      failed = 1;
    }
  }
  CHECK(oaax.destruction() == 0);
}

static long status_of(const char *key) {
  char line[256];
  long value = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file))
    if (strncmp(line, key, strlen(key)) == 0) value = atol(line + strlen(key));
  fclose(file);
  return value;
}

static int descriptors(void) {
  DIR *open = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(open) != NULL) count++;
  closedir(open);
  return count;
}

static void cycles(void) {
  long before = 0;
  int i, opened = descriptors();
  CHECK(oaax.destruction() == 0 && oaax.error_message() != NULL);
  for (i = 0; i < 100; i++) {
    CHECK(oaax.initialization() == 0 && load("scaled_sum.oaax") == 0);
    CHECK(oaax.send(sum_input(2000, 1)) == 0 && oaax.send(sum_input(2000, 2)) == 0); /* the second is never received */
    check_sum(receive(), 2000, 1);
    CHECK(oaax.destruction() == 0 && oaax.destruction() == 0 && threads() == 1);
    CHECK(oaax.error_message() != NULL && oaax.version() != NULL && oaax.name() != NULL);
    if (i == 20) before = status_of("VmRSS:");
  }
  CHECK(status_of("VmRSS:") - before < 2048 && descriptors() == opened);
}

static void unload(void) {
  int round;
  for (round = 0; round < 4; round++) {
    CHECK(oaax.initialization() == 0 && load("scaled_sum.oaax") == 0);
    CHECK(oaax.send(sum_input(9000, 1)) == 0);
    check_sum(receive(), 9000, 1);
    if (round % 2 == 0) CHECK(oaax.destruction() == 0);
    memset(&oaax, 0, sizeof oaax);
    CHECK(dlclose(library) == 0 && dlopen(library_path, RTLD_NOW | RTLD_NOLOAD) == NULL && threads() == 1);
    open_library();
  }
  CHECK(oaax.initialization() == 0 && load("scaled_sum.oaax") == 0 && oaax.send(sum_input(9000, 1)) == 0);
  /* leaves without destruction */
}

int main(int argc, char **argv) {
  size_t i;
  static const struct {
    const char *name;
    void (*run)(void);
  } parts[] = {
      {"layout", layout}, {"init", init}, {"loading", loading}, {"wrong_inputs", wrong_inputs}, {"receiving", receiving},
      {"two_threads", two_threads}, {"failure", failure}, {"cycles", cycles}, {"unload", unload},
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
