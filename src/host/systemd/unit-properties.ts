import { isAbsolute } from 'node:path'
import type { UnitSpec } from '../../core/unit/unit-spec.ts'
import { UNIT_SLICE } from '../../core/unit/unit-spec.ts'
import { limits } from '../../config/limits.ts'
import type { VmId } from '../../core/ids.ts'
import type { FoundMark, VmMark } from '../../core/world/world.ts'
import { assert } from '../../lib/assert.ts'
import { HOST_PATHS } from './unit-root.ts'
import type { UnitRoot } from './unit-root.ts'

/** A property as StartTransientUnit takes it: name, D-Bus signature, value (org.freedesktop.systemd1(5)). */
export type UnitProperty = readonly [name: string, signature: string, value: unknown]

/** The variables that carry the mark of a VM in the environment of its unit, from which {@link markIn} reads it. */
const STORE_VARIABLE = 'VMHOSTD_STORE'
const CREATED_VARIABLE = 'VMHOSTD_CREATED_AT_MS'

const environmentOf = ({ storeId, createdAtMs }: VmMark): readonly string[] => [
  `${STORE_VARIABLE}=${storeId}`,
  `${CREATED_VARIABLE}=${createdAtMs}`,
]

/** Reads the mark from the environment of a unit. */
export function markIn(environment: readonly string[]): FoundMark {
  const valueOf = (name: string): string | undefined =>
    environment.find((assignment) => assignment.startsWith(`${name}=`))?.slice(name.length + 1)
  const created = valueOf(CREATED_VARIABLE)
  return {
    storeId: valueOf(STORE_VARIABLE),
    createdAtMs: created !== undefined && /^\d+$/.test(created) ? Number(created) : undefined,
  }
}

/** How long systemd waits for processes that SIGKILL does not end because they are stuck in the kernel. */
const STOP_TIMEOUT_USEC = 10_000_000n
const START_TIMEOUT_USEC = 20_000_000n

export function unitProperties(id: VmId, spec: UnitSpec, root: UnitRoot): readonly UnitProperty[] {
  return [
    ...process(spec),
    ...standardStreams(id, spec),
    ...resources(spec),
    ...fileSystem(spec, root),
    ...PRIVILEGES,
    ...SYSTEM_CALL_FILTER,
    ...deviceAccess(spec),
  ]
}

function process(spec: UnitSpec): UnitProperty[] {
  const [program] = spec.command
  assert(isAbsolute(program), `the program of a unit is an absolute path, not ${program}`)
  return [
    ['Description', 's', spec.description],
    ['Slice', 's', UNIT_SLICE],
    // With `exec`, started means executed: if the program is missing, the start fails (systemd.service(5)).
    ['Type', 's', 'exec'],
    // Kernel arguments may contain a `$`, which systemd would expand (systemd.service(5), "Command lines").
    ['ExecStartEx', 'a(sasas)', [[program, [...spec.command], ['no-env-expand']]]],
    ['Environment', 'as', [...environmentOf(spec.mark)]],
    ['User', 's', String(spec.userId)],
    ['SupplementaryGroups', 'as', [...spec.supplementaryGroups]],
    ['UMask', 'u', 0o077],
    ['Restart', 's', 'no'],
    // A stop always kills.
    ['KillMode', 's', 'control-group'],
    ['KillSignal', 'i', SIGKILL],
    ['TimeoutStopUSec', 't', STOP_TIMEOUT_USEC],
    ['TimeoutStartUSec', 't', START_TIMEOUT_USEC],
    // When the host shuts down, units stop in the reverse order: the daemon saves the guest before its unit ends.
    ['Before', 'as', ['vmhostd.service']],
    // When the host shuts down, the file system of the disk is unmounted after the VM has ended.
    ['RequiresMountsFor', 'as', [...spec.readOnlyPaths, ...spec.readWritePaths]],
  ]
}

/**
 * Sets the standard streams. The console is standard input, standard output and the controlling terminal. systemd opens
 * it before it drops privileges and changes the root. On standard error a monitor reports why it failed. That goes to
 * the journal, which `journalctl VM_ID=…` shows, and not into the guest's console.
 */
const standardStreams = (id: VmId, spec: UnitSpec): UnitProperty[] => [
  // Of the three ways to take a terminal, this one neither waits for it nor takes it from another process
  // (systemd.exec(5)).
  ['StandardInput', 's', 'tty-fail'],
  ['StandardOutput', 's', 'tty'],
  ['StandardError', 's', 'journal'],
  // journald would take 10,000 lines in 30 s, and the oldest lines of the host give way to them.
  ['LogRateLimitIntervalUSec', 't', BigInt(limits.monitorLogLinesMs) * 1000n],
  ['LogRateLimitBurst', 'u', limits.monitorLogLinesBurst],
  // A line that begins with `<5>` would look like one of the audit trail. journald shows a `<0>` on every terminal.
  ['SyslogLevelPrefix', 'b', false],
  ['LogExtraFields', 'aay', [Buffer.from(`VM_ID=${id}`)]],
  ['TTYPath', 's', spec.ttyPath],
]

const resources = (spec: UnitSpec): UnitProperty[] => [
  ['CPUQuotaPerSecUSec', 't', BigInt(Math.round(spec.cpuQuotaPercent * 10_000))],
  ['MemoryMax', 't', BigInt(spec.memoryMaxBytes)],
  // MemoryMax= does not count swap, so a monitor that a guest has taken over could fill all of the host's.
  ['MemorySwapMax', 't', BigInt(spec.memoryMaxBytes)],
  ['OOMPolicy', 's', 'kill'],
  ['TasksMax', 't', BigInt(spec.tasksMax)],
  ['LimitNOFILE', 't', BigInt(spec.openFilesMax)],
  // A core dump would put the guest's memory on the host's disk.
  ['LimitCORE', 't', 0n],
]

const SIGKILL = 9
const ENOSYS = 38
const MS_REC = 16_384n

const PSEUDO_DEVICES = ['/dev/null', '/dev/urandom']

/**
 * Builds a root that contains only what the spec names and the host's programs: nothing in /proc, /sys or /etc, no
 * files of other VMs, no home. Hiding the rest of the host piece by piece (ProtectSystem=strict, ProtectProc=,
 * PrivateTmp=, …) takes several times as long, because each of those mounts everything again.
 */
function fileSystem(spec: UnitSpec, root: UnitRoot): UnitProperty[] {
  const [program] = spec.command
  const mount = (path: string): unknown => [path, path, false, MS_REC]
  const mountIfThere = (path: string): unknown => [path, path, true, MS_REC]
  const onHostPath = HOST_PATHS.some((path) => program.startsWith(`${path}/`))
  // A missing program must fail as such (exit status 203), and not as a missing mount.
  const programs = onHostPath ? root.mounted : [...root.mounted, program]
  return [
    ['RootDirectory', 's', root.directory],
    ['ReadOnlyPaths', 'as', ['+/']],
    ['MountAPIVFS', 'b', false],
    ['BindReadOnlyPaths', 'a(ssbt)', [...programs.map(mountIfThere), ...spec.readOnlyPaths.map(mount)]],
    [
      'BindPaths',
      'a(ssbt)',
      [...PSEUDO_DEVICES, ...devicesOf(spec).map(({ path }) => path), ...spec.readWritePaths].map(mount),
    ],
    ['RuntimeDirectory', 'as', [spec.runtimeDirectory]],
    ['RuntimeDirectoryMode', 'u', 0o700],
  ]
}

/**
 * Takes away what a program could still do without any privilege. The last six hide what this root does not have, or
 * forbid again what the filter of system calls forbids: they hold if one of those is ever loosened. docs/sandbox.md has
 * each point.
 */
const PRIVILEGES: readonly UnitProperty[] = [
  ['NoNewPrivileges', 'b', true],
  ['CapabilityBoundingSet', 't', 0n],
  ['RestrictSUIDSGID', 'b', true],
  ['RestrictNamespaces', 't', 0n],
  ['RestrictRealtime', 'b', true],
  ['LockPersonality', 'b', true],
  ['PrivateMounts', 'b', true],
  ['RemoveIPC', 'b', true],
  ['ProtectHome', 's', 'yes'],
  ['ProtectKernelLogs', 'b', true],
  ['ProtectKernelModules', 'b', true],
  ['ProtectClock', 'b', true],
]

/**
 * The calls that a monitor needs, by their names on x86-64 and arm64. systemd always adds its group `@default`
 * (systemd.exec(5), "System Call Filtering"). The filter is built at each start, in a time that grows with the square
 * of their number.
 */
const SYSTEM_CALLS = [
  // Descriptors, and what is read and written through them.
  ...['close', 'close_range', 'dup', 'dup2', 'dup3', 'fcntl', 'ioctl', 'lseek', 'pipe', 'pipe2'],
  ...['read', 'readv', 'pread64', 'preadv', 'preadv2', 'write', 'writev', 'pwrite64', 'pwritev', 'pwritev2'],
  // Files. A monitor removes the sockets that it makes; it has no file to link, rename or hand to another user.
  ...['access', 'faccessat', 'faccessat2', 'fstat', 'fstatfs', 'getcwd', 'getdents64', 'lstat', 'newfstatat'],
  ...['open', 'openat', 'readlink', 'readlinkat', 'stat', 'statfs', 'statx', 'umask', 'unlink', 'unlinkat'],
  ...['copy_file_range', 'fadvise64', 'fallocate', 'flock', 'ftruncate', 'fdatasync', 'fsync', 'msync'],
  // Memory.
  ...['get_mempolicy', 'madvise', 'memfd_create', 'mincore', 'mlock', 'mlock2', 'mremap', 'munlock'],
  // Waiting for events and times.
  ...['epoll_create1', 'epoll_ctl', 'epoll_pwait', 'epoll_wait', 'eventfd2', 'poll', 'ppoll', 'pselect6'],
  ...['select', 'timerfd_create', 'timerfd_gettime', 'timerfd_settime'],
  // Sockets.
  ...['accept', 'accept4', 'bind', 'connect', 'getpeername', 'getsockname', 'getsockopt', 'listen'],
  ...['recvfrom', 'recvmsg', 'sendmsg', 'sendto', 'setsockopt', 'shutdown', 'socket', 'socketpair'],
  // Signals.
  ...['kill', 'rt_sigaction', 'rt_sigpending', 'rt_sigprocmask', 'rt_sigsuspend', 'rt_sigtimedwait'],
  ...['sigaltstack', 'signalfd4', 'tgkill', 'tkill'],
  // Threads and processes.
  ...['clone', 'fork', 'getcpu', 'getrusage', 'prctl', 'seccomp', 'sysinfo', 'uname', 'vfork', 'wait4'],
  ...['sched_get_priority_max', 'sched_get_priority_min', 'sched_getparam', 'sched_getscheduler', 'waitid'],
]

/**
 * Allows less than `@system-service`, which is meant for services of all kinds: nothing that changes owners, users,
 * names, extended attributes, namespaces or priorities, no System V IPC, and no io_uring: the kernel makes what is
 * asked through a ring, such as a socket of any family, without passing the filters. Monitors try newer calls first and
 * fall back when they get ENOSYS. MemoryDenyWriteExecute= is omitted, because an emulator writes the code that it runs.
 */
const SYSTEM_CALL_FILTER: readonly UnitProperty[] = [
  ['SystemCallArchitectures', 'as', ['native']],
  ['SystemCallFilter', '(bas)', [true, SYSTEM_CALLS]],
  ['SystemCallErrorNumber', 'i', ENOSYS],
  // A tap is opened with an ioctl on /dev/net/tun, without a socket.
  ['RestrictAddressFamilies', '(bas)', [true, ['AF_UNIX']]],
]

/** Limits the devices. `closed` also allows /dev/null and similar devices, and ptys (systemd.resource-control(5)). */
const deviceAccess = (spec: UnitSpec): UnitProperty[] => [
  ['DevicePolicy', 's', 'closed'],
  ['DeviceAllow', 'a(ss)', devicesOf(spec).map(({ path, access }) => [path, access])],
]

/** Parses the devices, which are written as in DeviceAllow=: a path, and the allowed access. */
const devicesOf = (spec: UnitSpec): { readonly path: string; readonly access: string }[] =>
  spec.devices.map((device) => {
    const [path = '', access = 'rw'] = device.split(' ')
    return { path, access }
  })
