/* The parts of the benchmark that are in files of their own. */
#ifndef NCCL_TUNER_GO_BENCH_H
#define NCCL_TUNER_GO_BENCH_H

double now(void); /* ns */
double quantile(double *v, int n, double q); /* sorts v */

/* Prints what an event costs with the library at path, which records to dir. */
void bench_record(const char *path, const char *dir);

#endif
