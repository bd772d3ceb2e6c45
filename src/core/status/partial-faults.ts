import { limits } from '../../config/limits.ts'
import { isDiskMissing } from '../plan/plan-storage.ts'
import { idleTimeoutMs } from '../sleep/idle-timeout.ts'
import { isUnitActive, isLiveMonitor, leftoverWords } from '../world/world.ts'
import type { Facts } from '../plan/facet.ts'
import type { PartialFault, VmRecord } from '../vm/record.ts'
import type { Probe, World } from '../world/world.ts'

/**
 * Returns everything that the inspections found wrong, whether or not it keeps the VM from its desired state. This
 * includes failed inspections, and differences between the runtime and the unit. A plan gives only the first reason it
 * stops for; this returns all.
 */
export function partialFaults(
  record: VmRecord,
  world: World,
  { silentMs, capabilities }: Pick<Facts, 'silentMs' | 'capabilities'>,
): readonly PartialFault[] {
  const ofLive = () => [
    ...guestFaults(record, world, silentMs),
    ...deviceFaults(record, world),
    ...(capabilities.save ? [] : neverSleeps(record)),
  ]
  return [
    ...failedLooks(world),
    ...leftover(record, world),
    ...foreign(record, world),
    ...(isUnitActive(world) ? ofLive() : []),
  ]
}

function neverSleeps(record: VmRecord): PartialFault[] {
  if (idleTimeoutMs(record) === undefined) return []
  const message = 'the VM should sleep when it is idle and cannot: the installed monitor cannot save a guest'
  return [{ code: 'sleep_unsupported', step: 'monitor.ensure-saved', message }]
}

const ROOM_OF = {
  unit: 'unit',
  console: 'console',
  monitor: 'monitor',
  storage: 'storage',
  tap: 'network',
  firewall: 'network',
  saved: 'storage',
  traffic: 'traffic',
} as const satisfies Record<keyof World, string>

function failedLooks(world: World): PartialFault[] {
  return Object.entries(ROOM_OF).flatMap(([name, room]) => {
    const seen: Probe<unknown> = world[name as keyof World]
    // One outage of the pool is one fault.
    if (name === 'saved' && !world.storage.known) return []
    return seen.known ? [] : [{ code: seen.code, step: `${room}.inspect`, message: seen.message }]
  })
}

/** Reports processes that outlive their unit. While the unit cannot be inspected, the last report stays. */
function leftover(
  { observed: { partialFaults: before = [] } }: VmRecord,
  { unit }: World,
): readonly PartialFault[] {
  if (!unit.known) return before.filter(({ code }) => code === 'processes_left')
  if (unit.value.kind !== 'leftover') return []
  return [{ code: 'processes_left', step: 'unit.inspect', message: leftoverWords(unit.value) }]
}

/** Reports what belongs to another VM. A deletion leaves it and ends, so the log must say it. */
function foreign({ id }: VmRecord, { unit, storage }: World): PartialFault[] {
  const found: PartialFault[] = []
  if (unit.known && unit.value.kind === 'foreign') {
    const message = `a unit with the name of ${id} is left alone: ${unit.value.because}`
    found.push({ code: 'unit_foreign', step: 'unit.inspect', message })
  }
  if (storage.known && storage.value.disk.kind === 'foreign') {
    const message = `a disk with the name of ${id} is left alone: ${storage.value.disk.because}`
    found.push({ code: 'disk_foreign', step: 'storage.inspect', message })
  }
  return found
}

function guestFaults(record: VmRecord, { monitor, console }: World, silentMs: number): PartialFault[] {
  const found: PartialFault[] = []
  if (monitor.known && monitor.value.kind === 'silent' && silentMs >= limits.monitorAnswerMs) {
    const message = 'the unit is active, but its monitor does not answer'
    found.push({ code: 'monitor_unreachable', step: 'monitor.inspect', message })
  }
  if (monitor.known && monitor.value.kind === 'broken') {
    const message = `the unit is active, but its monitor says ${monitor.value.status}`
    found.push({ code: 'guest_over', step: 'monitor.inspect', message })
  }
  if (monitor.known && monitor.value.kind === 'stalled') {
    const goesOn = record.desired.power === 'running' ? '; it continues when there is room again' : ''
    const message = `the monitor paused the guest: the pool has no room for its writes (${monitor.value.status})${goesOn}`
    found.push({ code: 'disk_io_error', step: 'monitor.inspect', message })
  }
  if (console.known && console.value.kind !== 'stored') {
    const { kind } = console.value
    const remedy = kind === 'unstored' ? 'systemd accepts it again' : 'it is stopped and started once'
    const message = `the unit is active, but the master of its console is ${kind}: the VM ends with the daemon, unless ${remedy}`
    found.push({ code: 'console_unprotected', step: 'console.inspect', message })
  }
  return found
}

function deviceFaults(record: VmRecord, { monitor, storage, tap, firewall }: World): PartialFault[] {
  const found: PartialFault[] = []
  if (storage.known && isDiskMissing(record, storage.value)) {
    const message = 'the unit is active, but its disk is gone from the pool'
    found.push({ code: 'disk_missing', step: 'storage.inspect', message })
  }
  if (record.desired.network === undefined) return found
  const { device } = record.host
  const step = 'network.inspect'
  const answers = monitor.known && isLiveMonitor(monitor.value)
  if (tap.known && tap.value.kind !== 'present') {
    found.push({
      code: 'network_failed',
      step,
      message: `the unit is active, but ${device} is ${tap.value.kind}`,
    })
  } else if (tap.known && tap.value.kind === 'present' && !tap.value.facts.attached && answers) {
    found.push({ code: 'monitor_detached', step, message: `the guest runs, but no monitor holds ${device}` })
  }
  if (firewall.known && (firewall.value.kind === 'absent' || firewall.value.kind === 'altered')) {
    const message = `the unit is active, but the table inet vmhostd is ${firewall.value.kind}`
    found.push({ code: 'firewall_failed', step, message })
  }
  return found
}
