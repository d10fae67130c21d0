/* The linear shift of the event builder as an MPI program: in phase p rank r sends a message to rank (r+p) mod N and receives one
   from (r-p) mod N; a barrier ends the phase. The phase in which everybody would send to itself is left out. Rank 0 prints:
   ranks, seconds, bytes that went between ranks, share of the time that the ranks spent in the barrier, and the processor time of
   all ranks in seconds, user and kernel. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static double used(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, n;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	double duration = argc > 1 ? atof(argv[1]) : 0.5;
	int size = argc > 2 ? atoi(argv[2]) : 1 << 20;
	const int slots = 16; /* messages in rotation: no core's cache holds them all */
	char *out = malloc((size_t)size * slots), *in = malloc((size_t)size * slots);
	if (out == NULL || in == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(out, rank + 1, (size_t)size * slots);
	memset(in, 0, (size_t)size * slots);
	long sent = 0;
	int slot = 0, go = 1;
	double barrier = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime(), cpu = used(), all_cpu = 0;
	while (go) {
		for (int p = 1; p < n; p++) {
			MPI_Sendrecv(out + (size_t)size * slot, size, MPI_BYTE, (rank + p) % n, p, in + (size_t)size * slot, size, MPI_BYTE,
				(rank - p + n) % n, p, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			slot = (slot + 1) % slots;
			sent++;
			double t = MPI_Wtime();
			MPI_Barrier(MPI_COMM_WORLD);
			barrier += MPI_Wtime() - t;
		}
		go = MPI_Wtime() - began < duration;
		MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	double took = MPI_Wtime() - began, waited = 0;
	cpu = used() - cpu;
	long all = 0;
	MPI_Reduce(&sent, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&barrier, &waited, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Reduce(&cpu, &all_cpu, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("shift %d %.6f %.0f %.6f %.6f\n", n, took, (double)all * size, waited / n / took, all_cpu);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
