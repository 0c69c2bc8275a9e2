-- SPDX-License-Identifier: GPL-2.0-only
-- For wrk -s: after its own report, the percentiles that it does not print, in one line of JSON, times in microseconds.
function done(summary, latency, requests)
	io.write(string.format(
		'{"benchmark":"wrk","latency_us":{"p50":%d,"p99":%d,"p999":%d,"mean":%.3f,"rps":%.3f},"errors":%d}\n',
		latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.mean,
		summary.requests / summary.duration * 1e6,
		summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status +
		summary.errors.timeout))
end
