/* A stand-in for NVIDIA's libnvidia-ml.so.1: GPUs that do not exist, for tests of how NVML is asked.
 *
 * Only what utils/observe/monitor calls through nvidia-ml-py is here. It tests which GPU is asked, in which order, and
 * what is made of errors. It cannot test what NVML's numbers mean on a GPU.
 *
 *     cc -shared -fPIC -o DIR/libnvidia-ml.so.1 nvml.c        and LD_LIBRARY_PATH=DIR for the process that reads it
 *
 * -DWITHOUT_SAMPLES and -DWITHOUT_MEMORY_V2 leave those functions out, as in older drivers.
 *
 * Environment:
 *     STAND_IN_GPUS   how many GPUs there are, 4 unless told
 *     STAND_IN_FAIL   calls that fail, each with NVML's code, for all GPUs or for one:
 *                     "nvmlInitWithFlags=9 nvmlDeviceGetSamples:1=3"
 *
 * GPU i, from 0, has the UUID GPU-<letter>1b2c3d4-... with the letter a, b, c, d; its rates are 50 + i percent; each
 * look at its samples finds two new ones, 10 * (i + 1) and 4 more. MIG-a1b2c3d4-... is a MIG device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, WRONG_VERSION = 25 };
enum { MOST = 16, OLD_SAMPLES = 20, BUFFER = 120 };
#define GIB (1ULL << 30)
#define UUID_OF_ALL "1b2c3d4-0000-4000-8000-000000000000"

typedef int result;
typedef struct {
    int index;
    int looks; /* how often its samples were fetched */
} gpu;
typedef struct {
    unsigned gpu, memory;
} rates;
typedef struct {
    unsigned long long total, free, used;
} memory_v1;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;
typedef struct {
    unsigned long long time;
    union {
        double real;
        unsigned whole;
        unsigned long long wide;
    } value;
} sample;

static gpu gpus[MOST];
static gpu mig = {MOST, 0};
static int count = 0, started = 0;

/* The code with which a call shall fail on a GPU, 0 if it shall not. `index` -1: the call is about no GPU. */
static result failure(const char *call, int index) {
    const char *at = getenv("STAND_IN_FAIL");
    char one[128], all[128];
    snprintf(one, sizeof one, "%s:%d=", call, index);
    snprintf(all, sizeof all, "%s=", call);
    while (at && *at) {
        if (!strncmp(at, one, strlen(one)) || !strncmp(at, all, strlen(all))) return atoi(strchr(at, '=') + 1);
        at = strchr(at, ' ');
        if (at) at++;
    }
    return SUCCESS;
}

#define ASK(call, index)                              \
    do {                                              \
        result code = failure(call, index);           \
        if (code) return code;                        \
        if (!started) return UNINITIALIZED;           \
    } while (0)

result nvmlInitWithFlags(unsigned flags) {
    result code = failure("nvmlInitWithFlags", -1);
    (void)flags;
    if (code) return code;
    count = getenv("STAND_IN_GPUS") ? atoi(getenv("STAND_IN_GPUS")) : 4;
    for (int i = 0; i < count && i < MOST; i++) gpus[i].index = i;
    started++;
    return SUCCESS;
}

result nvmlShutdown(void) {
    if (!started) return UNINITIALIZED;
    started--;
    return SUCCESS;
}

const char *nvmlErrorString(result code) {
    static char text[32];
    snprintf(text, sizeof text, "Code %d", code);
    return text;
}

result nvmlDeviceGetCount_v2(unsigned *number) {
    ASK("nvmlDeviceGetCount", -1);
    *number = count;
    return SUCCESS;
}

result nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu **handle) {
    ASK("nvmlDeviceGetHandleByIndex", (int)index);
    if ((int)index >= count) return INVALID_ARGUMENT;
    *handle = &gpus[index];
    return SUCCESS;
}

/* STAND_IN_UUIDS: those that CUDA tells, 36 characters each, with a comma between them. */
static void write_uuid(const gpu *handle, char *text, unsigned length) {
    const char *told = getenv("STAND_IN_UUIDS");
    if (handle == &mig)
        snprintf(text, length, "MIG-a" UUID_OF_ALL);
    else if (told && strlen(told) >= 37u * handle->index + 36)
        snprintf(text, length, "GPU-%.36s", told + 37 * handle->index);
    else
        snprintf(text, length, "GPU-%c" UUID_OF_ALL, 'a' + handle->index);
}

result nvmlDeviceGetUUID(gpu *handle, char *text, unsigned length) {
    ASK("nvmlDeviceGetUUID", handle->index);
    write_uuid(handle, text, length);
    return SUCCESS;
}

/* NVML takes whole UUIDs only. */
result nvmlDeviceGetHandleByUUID(const char *wanted, gpu **handle) {
    char text[96];
    for (int i = 0; i <= count; i++) {
        gpu *each = i < count ? &gpus[i] : &mig;
        write_uuid(each, text, sizeof text);
        if (!strcmp(wanted, text)) {
            ASK("nvmlDeviceGetHandleByUUID", each->index);
            *handle = each;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

result nvmlDeviceGetName(gpu *handle, char *text, unsigned length) {
    ASK("nvmlDeviceGetName", handle->index);
    snprintf(text, length, "Stand-in");
    return SUCCESS;
}

result nvmlDeviceGetUtilizationRates(gpu *handle, rates *answer) {
    ASK("nvmlDeviceGetUtilizationRates", handle->index);
    if (handle == &mig) return NOT_SUPPORTED;
    answer->gpu = 50 + handle->index;
    answer->memory = 1;
    return SUCCESS;
}

#ifndef WITHOUT_SAMPLES
/* Asked for the size of the buffer with `samples` NULL, then for what is newer than `since`. The first look finds
 * OLD_SAMPLES at 99 percent, from before; each later one two more. The last entry was never filled. */
result nvmlDeviceGetSamples(
    gpu *handle, int kind, unsigned long long since, int *value_type, unsigned *length, sample *samples) {
    unsigned found = 0;
    (void)kind;
    ASK("nvmlDeviceGetSamples", handle->index);
    if (handle == &mig) return NOT_SUPPORTED;
    *value_type = 1; /* unsigned int */
    if (!samples) {
        *length = BUFFER;
        return SUCCESS;
    }
    for (int k = 1; k <= OLD_SAMPLES + 2 * handle->looks; k++) {
        unsigned long long time = 1000ULL * k;
        if (time <= since || found + 1 >= *length) continue;
        samples[found].time = time;
        samples[found++].value.whole = k <= OLD_SAMPLES ? 99 : 10 * (handle->index + 1) + (k % 2 ? 0 : 4);
    }
    samples[found].time = 0;
    samples[found++].value.whole = 77;
    *length = found;
    handle->looks++;
    return SUCCESS;
}
#endif

/* Version 1 counts what the driver reserves as used: 1 GiB here. */
result nvmlDeviceGetMemoryInfo(gpu *handle, memory_v1 *answer) {
    ASK("nvmlDeviceGetMemoryInfo", handle->index);
    answer->total = 16 * GIB;
    answer->used = 3 * GIB;
    answer->free = answer->total - answer->used;
    return SUCCESS;
}

#ifndef WITHOUT_MEMORY_V2
result nvmlDeviceGetMemoryInfo_v2(gpu *handle, memory_v2 *answer) {
    ASK("nvmlDeviceGetMemoryInfo_v2", handle->index);
    if (answer->version != (sizeof(memory_v2) | 2 << 24)) return WRONG_VERSION;
    answer->total = 16 * GIB;
    answer->reserved = 1 * GIB;
    answer->used = 2 * GIB;
    answer->free = answer->total - answer->reserved - answer->used;
    return SUCCESS;
}
#endif
