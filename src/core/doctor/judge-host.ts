import { limits } from '../../config/limits.ts'
import { saveFormOf } from '../monitor/qemu-save.ts'
import {
  judgeCertificates,
  judgeExtraAuthorities,
  judgeKeys,
  judgeNode,
  judgeRevocations,
  judgeTlsFiles,
} from './judge-certificates.ts'
import { judgeListeners, judgeNetwork } from './judge-network.ts'
import { judgeDisks, judgePool, judgeRecords, judgeRoom } from './judge-room.ts'
import type { Fact, HostFacts } from './host-facts.ts'
import type { Finding } from './finding.ts'

/** Returns a finding for each fact, in the order in which a host is set up. */
export const judgeHost = (facts: HostFacts): readonly Finding[] => [
  judgeKernel(facts),
  judgeSystemd(facts),
  ...judgeModules(facts),
  judgeControllers(facts),
  ...judgeNetwork(facts),
  ...judgeMonitors(facts),
  judgeKvm(facts),
  judgeConfiguration(facts),
  ...judgeLocalImages(facts),
  judgePool(facts),
  judgeRecords(facts),
  ...judgeDisks(facts),
  ...judgeRoom(facts),
  judgeSshKey(facts),
  judgeKeys(facts),
  ...judgeListeners(facts),
  ...judgeTlsFiles(facts),
  ...judgeNode(facts),
  ...judgeExtraAuthorities(facts),
  ...judgeCertificates(facts),
  ...judgeRevocations(facts),
  judgeClock(facts),
  judgeStore(facts),
  ...judgeDaemon(facts),
]

const atLeast = (version: string, [major, minor]: readonly [number, number]): boolean => {
  const [first = 0, second = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  return first > major || (first === major && second >= minor)
}

function judgeKernel({ kernel }: HostFacts): Finding {
  const min = limits.kernelVersionMin
  if (atLeast(kernel, min)) return { check: 'kernel', level: 'ok', found: `Linux ${kernel}` }
  const remedy = `boot Linux ${min.join('.')} or later`
  return { check: 'kernel', level: 'must', found: `Linux ${kernel}`, remedy }
}

function judgeSystemd({ systemd }: HostFacts): Finding {
  const check = 'systemd'
  const remedy = `use a host with systemd ${limits.systemdVersionMin} or later`
  if (!systemd.known) return { check, level: 'must', found: systemd.because, remedy }
  const found = `systemd ${systemd.value}`
  return Number.parseInt(systemd.value, 10) >= limits.systemdVersionMin
    ? { check, level: 'ok', found }
    : { check, level: 'must', found, remedy }
}

/** Kernel modules, and what does not work without them. */
const MODULES = [
  {
    level: 'must',
    what: 'guests need them',
    names: ['tun', 'nf_tables', 'nft_fib_inet', 'nft_connlimit', 'nf_conntrack_netlink'],
  },
  { level: 'should', what: 'sleep needs them', names: ['sch_ingress', 'cls_bpf'] },
  { level: 'should', what: 'bandwidth limits need them', names: ['sch_tbf', 'act_mirred', 'ifb'] },
] as const

function judgeModules({ modules }: HostFacts): readonly Finding[] {
  const check = 'modules'
  if (!modules.known) {
    const remedy = `check whether these can be loaded: ${MODULES.flatMap(({ names }) => names).join(' ')}`
    return [{ check, level: 'should', found: modules.because, remedy }]
  }
  const missing = MODULES.flatMap(({ level, what, names }) => {
    const lacking = names.filter((name) => !modules.value.has(name))
    return lacking.length === 0 ? [] : [{ level, what, lacking }]
  })
  if (missing.length === 0)
    return [{ check, level: 'ok', found: 'all that guests, sleep and bandwidth limits need' }]
  return missing.map(({ level, what, lacking }) => ({
    check,
    level,
    found: `missing: ${lacking.join(' ')}; ${what}`,
    remedy: `install the modules of the running kernel, then: modprobe -a ${lacking.join(' ')}`,
  }))
}

/** Limits of VMs' units (systemd.resource-control(5)): CPUQuota, MemoryMax, TasksMax. */
const CONTROLLERS = ['cpu', 'memory', 'pids']

function judgeControllers({ controllers }: HostFacts): Finding {
  const check = 'cgroups'
  const remedy =
    'boot with the unified hierarchy and these controllers (systemd.unified_cgroup_hierarchy=1, cgroup_enable=memory)'
  if (!controllers.known) return { check, level: 'must', found: controllers.because, remedy }
  const lacking = CONTROLLERS.filter((name) => !controllers.value.includes(name))
  return lacking.length === 0
    ? { check, level: 'ok', found: CONTROLLERS.join(' ') }
    : { check, level: 'must', found: `missing: ${lacking.join(' ')}`, remedy }
}

function judgeMonitors({ monitors, monitorVersions, qemuProgram }: HostFacts): readonly Finding[] {
  const { qemu, firecracker } = monitorVersions
  const isOneThere = qemu.known || firecracker.known
  const remedy =
    qemuProgram === undefined
      ? 'install the package qemu-system-x86 or qemu-system-arm'
      : `correct monitor.program, which is ${qemuProgram}, or leave it out`
  return [
    judgeQemu(qemu, isOneThere, remedy),
    judgeFirecracker(firecracker, monitors.default === 'firecracker'),
  ]
}

function judgeQemu(qemu: Fact<string>, isOneThere: boolean, remedy: string): Finding {
  const check = 'QEMU'
  if (!qemu.known)
    return {
      check,
      level: isOneThere ? 'should' : 'must',
      found: qemu.because,
      remedy,
    }
  if (saveFormOf(qemu.value) === undefined)
    return {
      check,
      level: 'should',
      found: `${qemu.value} cannot save guests`,
      remedy: 'install QEMU 8.2 or later, or no VM sleeps',
    }
  return { check, level: 'ok', found: qemu.value }
}

function judgeFirecracker(firecracker: Fact<string>, isWanted: boolean): Finding {
  const check = 'Firecracker'
  if (firecracker.known) return { check, level: 'ok', found: firecracker.value }
  if (!isWanted) return { check, level: 'ok', found: `not used: ${firecracker.because}` }
  return {
    check,
    level: 'must',
    found: firecracker.because,
    remedy: 'install it, or set [monitor] kind to auto or qemu',
  }
}

function judgeKvm({ kvm: { isFast, because } }: HostFacts): Finding {
  if (isFast) return { check: 'KVM', level: 'ok', found: because }
  const remedy =
    'enable virtualization in the firmware, or nested virtualization on the machine that hosts this one; without it guests are slow'
  return { check: 'KVM', level: 'should', found: because, remedy }
}

function judgeConfiguration({ configuration, configPath, hasConfigFile }: HostFacts): Finding {
  const check = 'configuration'
  if (configuration.known) return { check, level: 'ok', found: configPath }
  return {
    check,
    level: 'must',
    found: configuration.because,
    remedy: hasConfigFile ? `correct ${configPath}` : 'vmhostd setup',
  }
}

function judgeLocalImages({ localImages }: HostFacts): readonly Finding[] {
  if (localImages === undefined) return []
  const check = 'local images'
  if (localImages.known) return [{ check, level: 'ok', found: localImages.value }]
  const remedy = 'make that directory, or correct storage.local_images_directory'
  return [{ check, level: 'should', found: localImages.because, remedy }]
}

/** Judges the key that guests know. Without one, the daemon makes it at its start. */
function judgeSshKey({ sshKey }: HostFacts): Finding {
  const check = 'SSH key'
  if (!sshKey.known)
    return {
      check,
      level: 'must',
      found: sshKey.because,
      remedy:
        'put the right files there, such as those of a backup: the daemon does not start with these ("Shells in guests" in operating.md)',
    }
  return {
    check,
    level: 'ok',
    found:
      sshKey.value === 'fits' ? 'the daemon can log in to guests with it' : 'none yet; the daemon makes it',
  }
}

function judgeClock({ clockIsSet }: HostFacts): Finding {
  const check = 'clock'
  const remedy =
    'install and start a time service (systemd-timesyncd, chrony): certificates, URLs and guests depend on the clock'
  if (!clockIsSet.known) return { check, level: 'should', found: clockIsSet.because, remedy }
  return clockIsSet.value
    ? { check, level: 'ok', found: 'set by a time service' }
    : { check, level: 'should', found: 'not set by a time service', remedy }
}

/**
 * Judges whether the daemon runs, and comes back after a boot. An operator may have stopped it on purpose, or not have
 * started it yet, so neither is a `must`.
 */
function judgeDaemon({ daemon }: HostFacts): readonly Finding[] {
  if (daemon === undefined) return []
  const check = 'daemon'
  if (!daemon.known) return [{ check, level: 'should', found: daemon.because, remedy: 'run this as root' }]
  const { state, startsAtBoot } = daemon.value
  if (state === 'failed')
    return [
      {
        check,
        level: 'must',
        found: 'it ended by itself: no guest starts or wakes',
        remedy: 'journalctl -u vmhostd says why; then: systemctl restart vmhostd',
      },
    ]
  const enable = startsAtBoot ? '' : 'systemctl enable vmhostd'
  if (state === 'stopped')
    return [
      {
        check,
        level: 'should',
        found: `it is stopped: no guest starts or wakes${startsAtBoot ? '' : ', and a boot does not start it'}`,
        remedy: startsAtBoot ? 'systemctl start vmhostd' : `${enable} --now`,
      },
    ]
  return startsAtBoot
    ? [{ check, level: 'ok', found: `it is ${state}, and starts at each boot` }]
    : [{ check, level: 'should', found: `it is ${state}, and a boot does not start it`, remedy: enable }]
}

function judgeStore({ descriptorStore }: HostFacts): Finding {
  const check = 'descriptor store'
  if (!descriptorStore.known)
    return {
      check,
      level: 'must',
      found: descriptorStore.because,
      remedy: 'check whether systemd answers: systemctl status',
    }
  const { value } = descriptorStore
  if (value.available) return { check, level: 'ok', found: 'systemd keeps consoles while the daemon is down' }
  return { check, level: 'must', found: value.because, remedy: value.remedy }
}
