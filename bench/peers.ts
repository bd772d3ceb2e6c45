/**
 * peers: our daemon beside libvirt in one lab, each over one kept connection with mutual TLS. Both have the same
 * kernel, initrd, kernel arguments, seed, memory and emulation, a routed tap and a cloned disk. They run in turn, with
 * fresh guests each time.
 */
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { closeController, getVm, mutate, remove, setPower, settled } from '../lab/inside/controller.ts'
import { GUEST_IMAGES, guestRequest } from '../lab/inside/guest.ts'
import { mainPid } from '../lab/inside/shell.ts'
import { sleeper } from '../lab/inside/sleepers.ts'
import { firstPing } from './first-ping.ts'
import { measurement, median, progress } from './measurement.ts'
import { commandOf } from './monitor-command.ts'
import { readTwin, renderDomain } from './peers-domain.ts'
import {
  cloneFile,
  LIBVIRT_GUEST,
  LIBVIRT_URI,
  prepareLibvirt,
  prepareTap,
  takeAwayLibvirt,
} from './peers-host.ts'
import { Libvirt } from './peers-libvirt.ts'
import { peerNotes } from './peers-notes.ts'
import { compareSleep } from './peers-sleep.ts'
import { fillStore, removeAll } from './many-vms.ts'
import { Wire } from './peers-wire.ts'
import type { Measurement } from './measurement.ts'
import type { Board, Twin } from './peers-domain.ts'

const VM = 'bench-peers'
const OUR_ADDRESS = '192.0.2.20'
const MEMORY_MIB = 256
const DISK_MIB = 128
const GUEST_ROUNDS = 8
/** Time for guests; a busy machine runs fewer rounds. */
const GUEST_BUDGET_MS = 150_000
const SLEEP_ROUNDS = 8
const DEFINE_ROUNDS = 60
const LIST_ROUNDS = 60
const LISTED = 100
const LISTED_MEMORY_MIB = 64
const LISTED_DISK_MIB = 64
/** Pause before each timed call, so that no call profits from the one before. */
const REST_MS = 20
const LOOK_EVERY_MS = 1

const requestAt = (address: string): object =>
  guestRequest({ power: 'stopped', network: { ipv4_address: address } })
const OURS = requestAt(OUR_ADDRESS)

await prepareLibvirt()
const libvirt = new Libvirt(LIBVIRT_URI)
progress(`libvirt ${libvirt.version}; the first guest of each warms caches`)
const { twin, seedPath } = await learnTwin()
await prepareTap()
await libvirtGuest('microvm')
await libvirtGuest('q35')
const rows = [
  ...(await compareGuests()),
  ...(await compareSleeps()),
  ...(await compareDefine()),
  ...(await compareList()),
]
libvirt.close()
closeController()
await takeAwayLibvirt()
console.log(JSON.stringify(rows))

type Samples = {
  readonly ours: number[]
  readonly theirs: number[]
  /** Further findings. */
  readonly notes?: readonly string[]
}

function row(metric: string, { ours, theirs, notes = [] }: Samples, how: string): Measurement {
  const figure = measurement({
    bench: 'peers',
    metric,
    unit: 'ms',
    ours: median(ours),
    reference: median(theirs),
    reference_name: `libvirt ${libvirt.version}, ${how}`,
    runs: ours.length,
  })
  return { ...figure, notes: [...peerNotes(figure), ...notes] }
}

async function timed(work: () => unknown): Promise<number> {
  await sleep(REST_MS)
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

/** Runs a guest of ours as the model for libvirt's: reads its seed and its monitor's command line. */
async function learnTwin(): Promise<{ twin: Twin; seedPath: string }> {
  await mutate('PUT', `/v1/vms/${VM}`, { ...requestAt(LIBVIRT_GUEST.ipv4Address), power: 'running' })
  await settled(VM, 'running')
  const pid = await mainPid(`vmhost-${VM}`)
  const learnt = readTwin(commandOf(pid))
  const seed = await cloneFile(learnt.seedPath, 'seed')
  await remove(VM)
  return { twin: learnt, seedPath: seed }
}

function domain(name: string, board: Board, diskPath: string, memoryMib = MEMORY_MIB): string {
  const { tap } = LIBVIRT_GUEST
  return renderDomain({ name, board, twin, memoryMib, diskPath, seedPath, tap })
}

type GuestSample = { readonly firstPingMs: number; readonly stopMs: number }

async function compareGuests(): Promise<Measurement[]> {
  const ours: GuestSample[] = []
  const theirs: Record<Board, GuestSample[]> = { microvm: [], q35: [] }
  const deadline = performance.now() + GUEST_BUDGET_MS
  for (let round = 1; round <= GUEST_ROUNDS && performance.now() < deadline; round += 1) {
    ours.push(await ourGuest())
    for (const board of ['microvm', 'q35'] as const) theirs[board].push(await libvirtGuest(board))
    const last = [ours, theirs.microvm, theirs.q35].map((samples) => samples.at(-1))
    const pings = last.map((sample) => sample?.firstPingMs.toFixed(0)).join(', ')
    const stops = last.map((sample) => sample?.stopMs.toFixed(0)).join(', ')
    progress(
      `round ${round} of ${GUEST_ROUNDS}: first ping ${pings} ms; stop ${stops} ms (ours, microvm, q35)`,
    )
  }
  const samples = (board: Board, of: (sample: GuestSample) => number): Samples => ({
    ours: ours.map(of),
    theirs: theirs[board].map(of),
  })
  return [
    row(
      'first_ping_ms',
      samples('microvm', ({ firstPingMs }) => firstPingMs),
      'our board: microvm',
    ),
    row(
      'first_ping_ms',
      samples('q35', ({ firstPingMs }) => firstPingMs),
      'its own board: q35',
    ),
    row(
      'stop_ms',
      samples('microvm', ({ stopMs }) => stopMs),
      'virDomainDestroy',
    ),
  ]
}

/** Creates, starts, pings, stops (hard) and deletes a guest. */
async function ourGuest(): Promise<GuestSample> {
  await mutate('PUT', `/v1/vms/${VM}`, OURS)
  await settled(VM, 'stopped')
  const reply = firstPing(OUR_ADDRESS)
  let startedAt = 0
  await timed(async () => {
    startedAt = performance.now()
    await setPower(VM, 'running')
  })
  const firstPingMs = (await reply) - startedAt
  await settled(VM, 'running')
  const pid = await mainPid(`vmhost-${VM}`)
  const stopMs = await timed(async () => {
    await setPower(VM, 'stopped')
    while ((await getVm(VM)).observed.state !== 'stopped') await sleep(LOOK_EVERY_MS)
  })
  assertGone(pid)
  await remove(VM)
  return { firstPingMs, stopMs }
}

/** Does the same with libvirt. */
async function libvirtGuest(board: Board): Promise<GuestSample> {
  const diskPath = await cloneFile(`${GUEST_IMAGES}/rootfs.raw`, 'disk', DISK_MIB)
  const guest = libvirt.define(domain(VM, board, diskPath))
  const reply = firstPing(LIBVIRT_GUEST.ipv4Address)
  let startedAt = 0
  await timed(async () => {
    startedAt = performance.now()
    await libvirt.start(guest)
  })
  const firstPingMs = (await reply) - startedAt
  const pid = readFileSync(`/run/libvirt/qemu/${VM}.pid`, 'utf8').trim()
  const stopMs = await timed(() => {
    libvirt.destroy(guest)
    if (libvirt.isActive(guest)) throw new Error('libvirt has not stopped the domain')
  })
  assertGone(pid)
  libvirt.undefine(guest)
  return { firstPingMs, stopMs }
}

/** Compares sleeps: ours by idle timeout, theirs on command; both use the same file system. */
async function compareSleeps(): Promise<Measurement[]> {
  const diskPath = await cloneFile(`${GUEST_IMAGES}/rootfs.raw`, 'disk', DISK_MIB)
  const guest = libvirt.define(domain(VM, 'microvm', diskPath))
  const { saveMs, restoreMs } = await compareSleep({
    libvirt,
    guest,
    theirAddress: LIBVIRT_GUEST.ipv4Address,
    ours: sleeper('bench-sleeps', 31),
    memoryMib: MEMORY_MIB,
    rounds: SLEEP_ROUNDS,
  })
  libvirt.undefine(guest)
  return [
    row('save_ms', saveMs, 'virDomainManagedSave'),
    row('restore_ms', restoreMs, 'virDomainCreate from it'),
  ]
}

function assertGone(pid: string): void {
  if (existsSync(`/proc/${pid}`)) throw new Error(`the monitor ${pid} still runs after the stop`)
}

/**
 * Times ours until the answer, which comes when the VM is durable; its disk is made later. Times theirs likewise,
 * without a disk.
 */
async function compareDefine(): Promise<Measurement[]> {
  const wire = await Wire.open()
  const samples: Samples = { ours: [], theirs: [] }
  const roundTrips: number[] = []
  for (let round = 0; round < DEFINE_ROUNDS; round += 1) {
    const id = `${VM}-define-${round}`
    roundTrips.push(await timed(() => wire.request('GET', '/healthz')))
    samples.ours.push(await timed(() => wire.request('PUT', `/v1/vms/${id}`, OURS)))
    await settled(id, 'stopped')
    await remove(id)
    const xml = domain(id, 'microvm', seedPath)
    let defined: object = {}
    samples.theirs.push(
      await timed(() => {
        defined = libvirt.define(xml)
      }),
    )
    libvirt.undefine(defined)
  }
  wire.close()
  progress(`${DEFINE_ROUNDS} defined and deleted by each`)
  const floor = `of ours, ${median(roundTrips).toFixed(2)} ms are the round trip alone, as GET /healthz shows`
  return [row('define_ms', { ...samples, notes: [floor] }, 'virDomainDefineXML')]
}

async function compareList(): Promise<Measurement[]> {
  // A hundred are more than a host of this size has memory for.
  const ids = await fillStore(`${VM}-list`, LISTED, (index) => listedVm(index + 1))
  const defined = ids.map((id) => libvirt.define(domain(id, 'microvm', seedPath, LISTED_MEMORY_MIB)))
  progress(`${LISTED} defined by each`)
  const wire = await Wire.open()
  const [states, whole]: [Samples, Samples] = [
    { ours: [], theirs: [] },
    { ours: [], theirs: [] },
  ]
  const changed: number[] = []
  const list = (path: string): Promise<number> =>
    timed(async () => {
      const answer = await wire.request('GET', `${path}?limit=${LISTED}`)
      assertAll((JSON.parse(answer) as { items: unknown[] }).items.length)
    })
  for (let round = 0; round < LIST_ROUNDS; round += 1) {
    states.ours.push(await list('/v1/vm-states'))
    states.theirs.push(await timed(() => assertAll(libvirt.listStates())))
    await mutate('PUT', `/v1/vms/${ids[round]}/metadata`, { labels: { round: String(round) } })
    changed.push(await list('/v1/vm-states'))
    whole.ours.push(await list('/v1/vms'))
    whole.theirs.push(await timed(() => assertAll(libvirt.listWhole())))
  }
  wire.close()
  for (const guest of defined) libvirt.undefine(guest)
  await removeAll(ids)
  return [
    row(
      'list_states_100_ms',
      { ...states, notes: [`right after a change, ours takes ${median(changed).toFixed(2)} ms`] },
      'names and states (one call)',
    ),
    row('list_100_ms', whole, 'configuration and state of each (201 calls)'),
  ]
}

function listedVm(number: number): object {
  return {
    ...guestRequest({ power: 'stopped', network: { ipv4_address: `198.51.100.${number}` } }),
    compute: { cpu_millicores: 1000, memory_mib: LISTED_MEMORY_MIB, sleep_after_idle_seconds: 0 },
    disk: { size_mib: LISTED_DISK_MIB },
  }
}

function assertAll(count: number): void {
  if (count !== LISTED) throw new Error(`${count} were listed, not ${LISTED}`)
}
