/* Remote memory as an MPI program: rank 1 puts into the window of rank 0, gets from it and adds to a word of it by
   one-sided operations, each with a flush behind it. Rank 0 takes part by waiting for messages, so that an
   implementation without help from hardware goes on.
   Arguments: seconds of each measurement, operations side by side for throughput, sizes. Rank 1 prints: "add", the
   median time of an addition in microseconds; and for each size "size", the size, the median times of a put, a get and
   a message, and the bytes per second of puts and of gets. A message is a put with an empty message behind it: half of
   the time there and back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { window = 16 << 20, most = 1 << 18, to_answer = 1, to_end = 2 };

static char *memory, *mine;
static MPI_Win win;
static double times[most];
static int lanes;

static int longer(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(long n) {
	if (n > most)
		n = most;
	qsort(times, n, sizeof times[0], longer);
	return n ? times[n / 2] * 1e6 : 0;
}

enum kind { put, get, add, message };

/* start begins an operation on rank 0, the i-th of its size. */
static void start(enum kind k, int size, long i) {
	MPI_Aint at = (i % (window / size)) * (MPI_Aint)size;
	static long one = 1, before;
	switch (k) {
	case put:
	case message:
		MPI_Put(mine, size, MPI_BYTE, 0, at, size, MPI_BYTE, win);
		break;
	case get:
		MPI_Get(mine + (i % lanes) * (MPI_Aint)size, size, MPI_BYTE, 0, at, size, MPI_BYTE, win);
		break;
	case add:
		MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, win);
		break;
	}
}

/* each does one operation after the other, and gives the median of their times in microseconds. */
static double each(enum kind k, int size, double seconds) {
	double began = MPI_Wtime(), t = began;
	long n = 0;
	for (; t - began < seconds; n++) {
		double until;
		start(k, size, n);
		MPI_Win_flush(0, win);
		if (k == message) {
			MPI_Send(&size, 1, MPI_INT, 0, to_answer, MPI_COMM_WORLD);
			MPI_Recv(NULL, 0, MPI_BYTE, 0, to_answer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		until = MPI_Wtime();
		times[n % most] = (until - t) / (k == message ? 2 : 1);
		t = until;
	}
	return median(n);
}

/* rate does many operations side by side, and gives the bytes of a second. */
static double rate(enum kind k, int size, double seconds) {
	double began = MPI_Wtime(), t = began;
	long n = 0;
	while (t - began < seconds) {
		for (int i = 0; i < lanes; i++)
			start(k, size, n++);
		MPI_Win_flush(0, win);
		t = MPI_Wtime();
	}
	return (double)n * size / (t - began);
}

/* serve is rank 0: it answers messages until it is told to end. */
static void serve(void) {
	for (;;) {
		int size = 0;
		MPI_Status of;
		MPI_Recv(&size, 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &of);
		if (of.MPI_TAG == to_end)
			return;
		MPI_Put(mine, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
		MPI_Win_flush(1, win);
		MPI_Send(NULL, 0, MPI_BYTE, 1, to_answer, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, n;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	double seconds = argc > 1 ? atof(argv[1]) : 0.1;
	lanes = argc > 2 ? atoi(argv[2]) : 8;
	mine = lanes > 0 ? malloc((size_t)window * lanes) : NULL;
	if (mine == NULL || n != 2)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Win_allocate(window, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	memset(memory, 0, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	if (rank == 0) {
		serve();
	} else {
		int nothing = 0;
		printf("add %.6f\n", each(add, 8, seconds));
		for (int a = 3; a < argc; a++) {
			int size = atoi(argv[a]);
			if (size < 1 || size > window)
				MPI_Abort(MPI_COMM_WORLD, 1);
			/* A page that was never written would be read from one page for all. */
			memset(mine, a, (size_t)size * lanes);
			double p = each(put, size, seconds), g = each(get, size, seconds), m = each(message, size, seconds);
			double ps = rate(put, size, seconds), gs = rate(get, size, seconds);
			printf("size %d %.6f %.6f %.6f %.0f %.0f\n", size, p, g, m, ps, gs);
		}
		MPI_Send(&nothing, 1, MPI_INT, 0, to_end, MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(mine);
	MPI_Finalize();
	return 0;
}
