import { CODES_MAX, COLLECTORS, PLAN_OUTCOMES, STEPS_MAX } from './label-values.ts'
import { WAKE_REASONS } from '../vm/record.ts'
import { counter, gauge, histogram, onHost } from './metric.ts'

/** From a millisecond to a minute: steps, passes and requests, of which some wait. */
const WORK_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60]
/** A wake takes some tens of milliseconds to some seconds, and longer if it waits for memory. */
const WAKE_SECONDS = [0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 60]
const DELAY_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5]

const byStep = { labels: ['step', 'code'], bound: onHost(STEPS_MAX * CODES_MAX) } as const

/** Metrics of the daemon itself, and of its work since it started. */
export const daemonMetrics = {
  build: gauge('vmhostd_build_info', 'The version of the daemon, with the value 1.', {
    labels: ['version'],
  }),
  ready: gauge('vmhostd_ready', 'Whether the daemon is ready: 1 if it is, 0 if it is still starting.'),
  collectorSuccess: gauge(
    'vmhostd_collector_success',
    'Whether a part of these metrics could be measured. At 0, metrics of that part are absent in whole or in part.',
    { labels: ['collector'], bound: onHost(COLLECTORS.length) },
  ),
  processStart: gauge('process_start_time_seconds', 'When the daemon started.'),
  processCpu: counter('process_cpu_seconds_total', 'CPU time of the daemon.'),
  processMemory: gauge('process_resident_memory_bytes', 'Memory that the daemon has on the host.'),
  processOpenFiles: gauge('process_open_fds', 'File descriptors that the daemon has open.'),
  processOpenFilesMax: gauge('process_max_fds', 'The most file descriptors that the daemon may have open.'),
  timers: gauge(
    'vmhostd_timers',
    'Timers of the daemon that are pending: the next look at each VM, waits, and deadlines of calls under way.',
  ),
  loopDelay: histogram(
    'vmhostd_event_loop_delay_seconds',
    'How much later than it should a timer of the daemon fires.',
    { buckets: DELAY_SECONDS },
  ),
  passes: histogram('vmhostd_pass_duration_seconds', 'Passes of the reconciler, and how long each took.', {
    buckets: WORK_SECONDS,
  }),
  plans: counter('vmhostd_plans_total', 'Plans of the reconciler, by outcome.', {
    labels: ['outcome'],
    bound: onHost(PLAN_OUTCOMES.length),
  }),
  passFailures: counter(
    'vmhostd_pass_failures_total',
    'Passes that ended with a fault, by the step or inspection and the code of the fault.',
    byStep,
  ),
  steps: histogram(
    'vmhostd_step_duration_seconds',
    'Steps that the reconciler took, failed ones too, and how long each took.',
    { labels: ['step'], bound: onHost(STEPS_MAX), buckets: WORK_SECONDS },
  ),
  stepFailures: counter('vmhostd_step_failures_total', 'Steps that failed, by code of the fault.', byStep),
  wakes: histogram(
    'vmhostd_wake_duration_seconds',
    'Wakes of VMs by reason, and how long each took until the guest ran and had its packets.',
    { labels: ['reason'], bound: onHost(WAKE_REASONS.length), buckets: WAKE_SECONDS },
  ),
  requests: histogram(
    'vmhostd_api_request_duration_seconds',
    'Requests by route and class of the status, and how long the answer took. A long poll takes as long as it waits.',
    {
      labels: ['listener', 'method', 'route', 'status'],
      bound: { perRoute: 5 },
      buckets: WORK_SECONDS,
    },
  ),
} as const
