# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmarks print, as captured from Debian 12's packages and from bench/workloads."""

HACKBENCH = """\
Running in threaded mode with 1 groups using 40 file descriptors each (== 40 tasks)
Each sender will pass 20 messages of 100 bytes
Time: 0.011
"""

TBENCH = """\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 2 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
failed to create barrier semaphore
0 of 2 processes prepared for launch   0 sec
2 of 2 processes prepared for launch   0 sec
releasing clients
   2     31257   372.26 MB/sec  execute   1 sec  latency 6.298 ms
   2  cleanup   2 sec
   0  cleanup   2 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      23326     0.026     0.397
 Close          17216     0.026     0.195
 Rename           988     0.026     0.114
 Unlink          4647     0.027     6.288
 Deltree            2     0.000     0.000
 Mkdir              2     0.400     0.511
 Qpathinfo      21064     0.026     0.252
 Qfileinfo       3822     0.026     0.160
 Qfsinfo         3858     0.026     0.155
 Sfileinfo       1920     0.026     0.195
 Find            8122     0.026     0.738
 WriteX         12300     0.036     0.235
 ReadX          36475     0.027     0.240
 LockX             76     0.027     0.099
 UnlockX           76     0.028     0.110
 Flush           1653     0.026     0.122

Throughput 372.264 MB/sec  2 clients  2 procs  max_latency=6.298 ms
"""

# Ended by a signal in its first second, and read by a shell, which drops the blanks that a line begins with.
TBENCH_SHORT = """\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 0 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
0 of 2 processes prepared for launch   0 sec
2 of 2 processes prepared for launch   0 sec
releasing clients
measured for 100000000 ns

Operation      Count    AvgLat    MaxLat
----------------------------------------
NTCreateX       1339     0.020     0.112
Close           1053     0.021     1.053
Rename            55     0.020     0.030
Unlink           210     0.020     0.084
Deltree            2     0.001     0.001
Mkdir              2     0.224     0.372
Qpathinfo       1109     0.020     0.097
Qfileinfo        340     0.021     0.098
Qfsinfo          218     0.023     0.810
Sfileinfo        116     0.021     0.070
Find             435     0.019     0.067
WriteX          1431     0.032     0.383
ReadX           1995     0.020     0.131
LockX              4     0.018     0.018
UnlockX            4     0.018     0.019
Flush            108     0.020     0.029

Throughput 0 MB/sec  2 clients  2 procs  max_latency=0.000 ms
"""

SCHBENCH = (
    '{"benchmark":"schbench","wakeup_us":{"p50":4.208,"p90":25.024,"p99":41.344,"p999":4186.112,"min":2.385,'
    '"max":4193.912,"samples":302},"request_us":{"p50":71.936,"p90":152.064,"p99":212.480,"p999":244.096,"min":64.140,'
    '"max":244.096,"samples":300},"rps":13653.021,"runtime_s":0.021973159,"requests":300,"awake":145,"parameters":'
    '{"message_threads":1,"worker_threads":2,"cache_footprint":24,"operations":3,"cputime":0,"sleep_usec":0,'
    '"warmuptime":0.003,"runtime":null,"requests":300}}\n')

STREAM = (
    '{"benchmark":"stream","functions":{"copy":{"best_mb_s":41692.725,"avg_s":0.000042358,"min_s":0.000038376,'
    '"max_s":0.000046341,"bytes":1600000},"scale":{"best_mb_s":42546.402,"avg_s":0.000037640,"min_s":0.000037606,'
    '"max_s":0.000037675,"bytes":1600000},"add":{"best_mb_s":48794.372,"avg_s":0.000051130,"min_s":0.000049186,'
    '"max_s":0.000053074,"bytes":2400000},"triad":{"best_mb_s":48477.014,"avg_s":0.000050525,"min_s":0.000049508,'
    '"max_s":0.000051541,"bytes":2400000}},"valid":true,"parameters":{"threads":2,"array_size":100000,"ntimes":3}}\n')

PERF_MESSAGING = """\
# Running 'sched/messaging' benchmark:
# 20 sender and receiver processes per group
# 1 groups == 40 processes run

     Total time: 0.174 [sec]
"""

PERF_PIPE = """\
# Running 'sched/pipe' benchmark:
# Executed 2000 pipe operations between two processes

     Total time: 0.021 [sec]

      10.887000 usecs/op
          91852 ops/sec
"""

PERF_SIMPLE = "0.091\n"

PERF_FUTEX_HASH = """\
# Running 'futex/hash' benchmark:
Run summary [PID 18160]: 2 threads, each operating on 1024 [private] futexes for 1 secs.

[thread  0] futexes: 0x555af1ffa3f0 ... 0x555af1ffb3ec [ 521216 ops/sec ]
[thread  1] futexes: 0x555af1ffb690 ... 0x555af1ffc68c [ 38912 ops/sec ]

Averaged 280064 operations/sec (+- 86.11%), total secs = 1
"""

PERF_FUTEX_WAKE = """\
Run summary [PID 18168]: blocking on 2 threads (at [private] futex 0x55cea0be6b58), waking up 1 at a time.

[Run 1]: Wokeup 2 of 2 threads in 0.2290 ms
[Run 2]: Wokeup 2 of 2 threads in 0.1750 ms
Wokeup 2 of 2 threads in 0.1892 ms (+-34.20%)
"""

PERF_FUTEX_WAKE_PARALLEL = """\
Run summary [PID 18212]: blocking on 2 threads (at [private] futex 0x56537bb4ccf8), 2 threads waking up 1 at a time.

[Run 1]: Avg per-thread latency (waking 1/2 threads) in 0.0060 ms (+-33.33%)
[Run 2]: Avg per-thread latency (waking 1/2 threads) in 0.0110 ms (+-63.64%)
Avg per-thread latency (waking 1/2 threads) in 0.0157 ms (+-43.77%)
"""

PERF_FUTEX_REQUEUE = """\
Run summary [PID 18296]: Requeuing 2 threads (from [private] 0x55d114d09e5c to 0x55d114d09e58), 1 at a time.

[Run 1]: Requeued 2 of 2 threads in 0.0490 ms
[Run 2]: Requeued 2 of 2 threads in 0.0050 ms
Requeued 2 of 2 threads in 0.0092 ms (+-48.12%)
"""

STRESS_NG = """\
stress-ng: info:  [18361] setting to a 2 second run per stressor
stress-ng: info:  [18361] dispatching hogs: 1 switch
stress-ng: metrc: [18361] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s
stress-ng: metrc: [18361]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)
stress-ng: metrc: [18361] switch              500      0.00      0.00      0.00    145181.86      140173.82
stress-ng: metrc: [18361] miscellaneous metrics:
stress-ng: metrc: [18361] switch              5390.17 nanosecs per context switch (pipe method) \
(geometic mean of 1 instances)
stress-ng: info:  [18361] successful run completed in 0.00s
"""

SYSBENCH_CPU = """\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Threads started!

CPU speed:
    events per second:  2552.25

General statistics:
    total time:                          1.0006s
    total number of events:              2556

Latency (ms):
         min:                                    0.26
         avg:                                    0.78
         max:                                   43.95
         95th percentile:                        4.25
         sum:                                 1991.26

Threads fairness:
    events (avg/stddev):           1278.0000/0.00
    execution time (avg/stddev):   0.9956/0.00
"""

SYSBENCH_THREADS = """\
General statistics:
    total time:                          1.0011s
    total number of events:              403

Latency (ms):
         min:                                    3.36
         avg:                                    4.96
         max:                                    5.70
         95th percentile:                        5.37
         sum:                                 1999.11
"""

FIO_TERSE = (
    "3;fio-3.33;n;0;0;528;528000;132000;1;0;0;0.000000;0.000000;0;7;0.102629;0.642140;1.000000%=0;5.000000%=0;"
    "10.000000%=0;20.000000%=0;30.000000%=0;40.000000%=0;50.000000%=0;60.000000%=0;70.000000%=0;80.000000%=0;"
    "90.000000%=0;95.000000%=0;99.000000%=3;99.500000%=7;99.900000%=7;99.950000%=7;99.990000%=7;0%=0;0%=0;0%=0;0;7;"
    "0.146091;0.655997;0;0;0.000000%;0.000000;0.000000;496;496000;124000;1;0;0;0.000000;0.000000;0;0;0.047395;0.013961;"
    "1.000000%=0;5.000000%=0;10.000000%=0;20.000000%=0;30.000000%=0;40.000000%=0;50.000000%=0;60.000000%=0;"
    "70.000000%=0;80.000000%=0;90.000000%=0;95.000000%=0;99.000000%=0;99.500000%=0;99.900000%=0;99.950000%=0;"
    "99.990000%=0;0%=0;0%=0;0%=0;0;0;0.112790;0.023062;0;0;0.000000%;0.000000;0.000000;0.000000%;0.000000%;0;0;9;"
    "100.0%;0.0%;0.0%;0.0%;0.0%;0.0%;0.0%;99.61%;0.00%;0.39%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;"
    "0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%\n")

# Shortened: of each direction only what is read, and not all percentiles.
FIO_JSON = """\
note: both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "n",
      "groupid" : 0,
      "error" : 0,
      "read" : {
        "io_bytes" : 1048576,
        "iops" : 256000.000000,
        "clat_ns" : {
          "min" : 29,
          "max" : 14016,
          "N" : 256,
          "percentile" : {
            "50.000000" : 49,
            "99.000000" : 91,
            "99.900000" : 14016
          }
        }
      },
      "write" : {
        "io_bytes" : 0,
        "iops" : 0.000000,
        "clat_ns" : {
          "min" : 0,
          "max" : 0,
          "N" : 0
        }
      }
    }
  ]
}
"""

CYCLICTEST = """\
# /dev/cpu_dma_latency set to 0us
T: 0 (18019) P: 0 I:1000 C:    999 Min:     27 Act:   78 Avg:   98 Max:    1702
T: 1 (18020) P: 0 I:1500 C:    663 Min:     33 Act:   98 Avg:  108 Max:    3374
"""

CYCLICTEST_JSON = """\
{
  "file_version": 1,
  "rt_test_version:": "2.40",
  "return_code": 0,
  "num_threads": 1,
  "resolution_in_ns": 0,
  "thread": {
    "0": {
      "histogram": {      },
      "cycles": 986,
      "min": 14,
      "max": 11647,
      "avg": 99.34,
      "cpu": 0,
      "node": 0
    }
  }
}
"""
