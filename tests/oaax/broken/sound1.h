/* A sound OAAX 1.x runtime in as few lines as will do, for one model: y = x + x over four floats.
 * Each file beside it defines one FAULT_… and includes it: a runtime that breaks one rule. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "oaax1_runtime.h"

enum { MOST = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t input_came = PTHREAD_COND_INITIALIZER, output_came = PTHREAD_COND_INITIALIZER;
static pthread_t worker;
static int initialised, loaded, closing;
static tensors_struct *inputs[MOST], *outputs[MOST];
static int n_inputs, n_outputs;
static const char *error_text = "no error";

static int fail(const char *text) {
  error_text = text;
  return 1;
}

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

static tensors_struct *compute(const tensors_struct *input) {
  tensors_struct *output = calloc(1, sizeof *output);
  float *x = input->data[0], *y = malloc(16);
  int i;
  output->num_tensors = 1;
#ifndef FAULT_NO_NAMES
  output->names = malloc(sizeof(char *));
  output->names[0] = strdup("y");
#endif
  output->data_types = malloc(sizeof(tensor_data_type));
  output->data_types[0] = DATA_TYPE_FLOAT;
  output->ranks = malloc(sizeof(size_t));
  output->ranks[0] = 2;
  output->shapes = malloc(sizeof(size_t *));
  output->shapes[0] = malloc(2 * sizeof(size_t));
  output->shapes[0][0] = 1;
  output->shapes[0][1] = 4;
  output->data = malloc(sizeof(void *));
  output->data[0] = y;
  for (i = 0; i < 4; i++) y[i] = 2 * x[i];
  return output;
}

static tensors_struct *take(tensors_struct **queue, int *length) {
  tensors_struct *first = queue[0];
  memmove(queue, queue + 1, sizeof *queue * (size_t)--*length);
  return first;
}

static void *work(void *unused) {
  pthread_mutex_lock(&lock);
  for (;;) {
    tensors_struct *input;
    while (!closing && (n_inputs == 0 || n_outputs == MOST)) pthread_cond_wait(&input_came, &lock);
    if (closing) break;
    input = take(inputs, &n_inputs);
#ifdef FAULT_LOSES_AN_OUTPUT
    static int count;
    if (++count == 700) {
      free_tensors(input);
      continue;
    }
#endif
#ifdef FAULT_SWAPS_TWO
    static int number;
    static tensors_struct *held;
    if (++number == 25) {
      held = compute(input);
      free_tensors(input);
      continue;
    }
#endif
    outputs[n_outputs++] = compute(input);
#ifdef FAULT_SWAPS_TWO
    if (held != NULL) outputs[n_outputs++] = held;
    held = NULL;
#endif
    free_tensors(input);
    pthread_cond_signal(&output_came);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

int runtime_initialization(void) {
  if (initialised) return fail("initialised already");
  initialised = 1;
  closing = 0;
  return 0;
}

int runtime_initialization_with_args(int length, const char **keys, const void **values) {
  int i;
  for (i = 0; i < length; i++) {
#ifdef FAULT_READS_EVERY_VALUE
    if (strlen(values[i]) > 1000) return fail("a value is too long");
#else
    if (strcmp(keys[i], "log_level") == 0 && strlen(values[i]) != 1) return fail("log_level is no level");
#endif
  }
  (void)keys;
  return runtime_initialization();
}

int runtime_model_loading(const char *file_path) {
  char bytes[4096];
  size_t size;
  FILE *file;
  if (!initialised) return fail("not initialised");
#ifndef FAULT_LOADS_A_SECOND_MODEL
  if (loaded) return fail("a model is loaded already");
#endif
  file = fopen(file_path, "rb");
  if (file == NULL) return fail("no such file");
  size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  if (memmem(bytes, size, "Add", 3) == NULL) return fail("this is no model");
  if (!loaded) pthread_create(&worker, NULL, work, NULL);
  loaded = 1;
  return 0;
}

int send_input(tensors_struct *input) {
  if (!initialised || !loaded) return fail("no model is loaded");
#ifndef FAULT_TRUSTS_TENSORS
  if (input == NULL || input->num_tensors != 1 || !input->data || !input->shapes || !input->ranks || !input->data_types) {
#ifdef FAULT_FREES_WHAT_IT_REFUSES
    if (input != NULL) free(input->names);
#endif
    return fail("these are not the tensors of the model");
  }
#endif
  if (input->ranks[0] != 2 || input->shapes[0][1] != 4 || input->data_types[0] != DATA_TYPE_FLOAT) return fail("another shape");
  pthread_mutex_lock(&lock);
  if (n_inputs == MOST) {
    pthread_mutex_unlock(&lock);
    return fail("the queue is full");
  }
  inputs[n_inputs++] = input;
  pthread_cond_signal(&input_came);
  pthread_mutex_unlock(&lock);
  return 0;
}

int receive_output(tensors_struct **output) {
  struct timespec until;
  *output = NULL;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 50000000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_nsec -= 1000000000L;
    until.tv_sec++;
  }
  pthread_mutex_lock(&lock);
  while (n_outputs == 0 && pthread_cond_timedwait(&output_came, &lock, &until) != ETIMEDOUT) continue;
  if (n_outputs > 0) *output = take(outputs, &n_outputs);
  pthread_cond_signal(&input_came);
  pthread_mutex_unlock(&lock);
  return *output ? 0 : fail("no output is available");
}

int runtime_destruction(void) {
  pthread_mutex_lock(&lock);
  closing = 1;
  pthread_cond_broadcast(&input_came);
  pthread_mutex_unlock(&lock);
  if (loaded) pthread_join(worker, NULL);
  while (n_inputs > 0) free_tensors(take(inputs, &n_inputs));
  while (n_outputs > 0) free_tensors(take(outputs, &n_outputs));
  loaded = 0;
#ifndef FAULT_STARTS_ONCE
  initialised = 0;
#endif
  return 0;
}

const char *runtime_error_message(void) { return error_text; }
const char *runtime_version(void) { return "1.0.0"; }
const char *runtime_name(void) { return "OAAX sound C runtime"; }

#ifdef FAULT_EXPORTS_MORE
int helper_of_mine(void) { return 1; }
#endif
