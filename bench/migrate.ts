/**
 * migrate: a running guest with its disk to another host, and back, beside libvirt's live migration. Both have the same
 * kernel, memory, emulation and disk, and move over mutual TLS. A client sends a line every 5 ms throughout.
 */
import { guestRequest } from '../lab/inside/guest.ts'
import { arrive, leave } from '../test/two-hosts/both-hosts.ts'
import { CountingClient } from '../test/two-hosts/counting-client.ts'
import { hasArrived, offer, seen, take } from '../test/two-hosts/move.ts'
import { routeGuest } from '../test/two-hosts/roads.ts'
import { Pinger } from '../test/two-hosts/pinger.ts'
import { measurement, median, progress } from './measurement.ts'
import {
  LIBVIRT_GUEST,
  LIBVIRT_IMAGES,
  moveByHand,
  moveGuest,
  prepareHost,
  prepareTap,
  startGuest,
  takeAway,
} from './migrate-libvirt.ts'
import { streamRates } from './migrate-stream.ts'
import { commandOf } from './monitor-command.ts'
import { readTwin, renderDomain } from './peers-domain.ts'
import type { LabHost } from '../test/two-hosts/lab-host.ts'
import type { Measurement } from './measurement.ts'
import type { Twin } from './peers-domain.ts'

const VM = 'bench-migrate'
const OUR_ADDRESS = '192.0.2.20'
const MEMORY_MIB = 256
const DISK_MIB = 1024
/** Random bytes on the disk, behind the guest's file system. */
const USED_MIB = 200
const ROUNDS = 6
const SEND_EVERY_MS = 5
/** Answers before and after each move. */
const ANSWERS = 100

const NOTES = {
  pause_ms: [
    'the longest time without an answer at a client that sends a line every 5 ms',
    'the client is routed to the destination when GET there says released; with libvirt, when it reports that the guest runs',
    'libvirt copies most memory while its guest runs; ours saves the guest, and every byte is on a disk before the source releases it',
    'board: ours microvm, libvirt its own q35',
  ],
  pause_by_hand_ms: [
    'the same pause of ours; by hand the memory alone moves, and nothing is flushed or compared',
    'ours also moves what was written since the last round of the disk, and both hosts flush everything',
  ],
  mibps: [
    `curl reads round 1 of the disk, ${USED_MIB} MiB of it random, and a file of as many bytes from openssl s_server`,
    'each frame of a round has a checksum, and the stream a digest',
  ],
  total_ms: ['ours: from the offer until GET says running; libvirt: until its command ends'],
} as const

type Sample = { readonly totalMs: number; readonly pauseMs: number }

const requestAt = (host: LabHost, address: string, power: 'running' | 'stopped'): object => ({
  ...guestRequest({ power, network: { ipv4_address: address }, root: host.root }),
  disk: { size_mib: DISK_MIB },
})

/** Writes to a disk that no guest has. */
const fill = (host: LabHost, path: string): Promise<string> =>
  host.run(
    'dd',
    'if=/dev/urandom',
    `of=${path}`,
    'bs=1M',
    `count=${USED_MIB}`,
    'seek=512',
    'conv=notrunc,fsync',
  )

const hosts = await arrive()
const { first, second } = hosts
for (const host of [first, second]) await prepareHost(host, DISK_MIB)
const twin = await learnTwin()
for (const host of [first, second]) await prepareTap(host)
const ours = await ourClient()
const theirs = await libvirtClient()
const pingers = {
  ours: new Pinger(first, OUR_ADDRESS),
  theirs: new Pinger(first, LIBVIRT_GUEST.ipv4Address),
}
const samples: { readonly ours: Sample[]; readonly theirs: Sample[] } = { ours: [], theirs: [] }
let [from, to] = [first, second]
for (let round = 0; round <= ROUNDS; round += 1) {
  const our = await measured(ours, () => moveOurs(round, from, to))
  const their = await measured(theirs, () =>
    moveGuest(from, to, () => routeGuest(LIBVIRT_GUEST.ipv4Address, to)),
  )
  ;[from, to] = [to, from]
  progress(
    `round ${round} of ${ROUNDS}: ours ${our.totalMs.toFixed(0)} ms, still for ${our.pauseMs.toFixed(0)}; ` +
      `libvirt ${their.totalMs.toFixed(0)} ms, still for ${their.pauseMs.toFixed(0)}`,
  )
  // The first move of each is the only one whose destination has never had the disk.
  if (round === 0) continue
  samples.ours.push(our)
  samples.theirs.push(their)
}
for (const client of [ours, theirs]) await client.checkDisk()
const byHand: Sample[] = []
for (let round = 0; round < ROUNDS; round += 1) {
  byHand.push(
    await measured(theirs, () => moveByHand(from, to, () => routeGuest(LIBVIRT_GUEST.ipv4Address, to))),
  )
  ;[from, to] = [to, from]
}
// The daemon's VM is where the last of its moves has brought it.
if (ROUNDS % 2 === 1) [from, to] = [to, from]
for (const client of [ours, theirs]) client.close()
const lost = { ours: await pingers.ours.end(), theirs: await pingers.theirs.end() }
if (lost.ours.lost.length > 0) throw new Error(`echo requests without a reply: ${lost.ours.lost.join(', ')}`)
const rates = await streamRates({ vm: VM, migration: `${VM}-stream`, from, to }, ROUNDS)
for (const host of [first, second]) await takeAway(host)
await leave(hosts)
const packets = `echo requests without a reply, of 20 a second over all moves: ours 0, libvirt ${lost.theirs.lost.length}`
console.log(
  JSON.stringify([
    { ...row('pause_ms', ({ pauseMs }) => pauseMs), notes: [...NOTES.pause_ms, packets] },
    handRow(),
    row('total_ms', ({ totalMs }) => totalMs),
    streamRow(),
  ]),
)
process.exit(0)

/** Runs a guest of ours as the model for libvirt's, and copies its files to both hosts. */
async function learnTwin(): Promise<Twin> {
  await first.controller.mutate(
    'PUT',
    `/v1/vms/${VM}`,
    requestAt(first, LIBVIRT_GUEST.ipv4Address, 'running'),
  )
  await first.controller.settled(VM, 'running')
  const pid = await first.run('systemctl', 'show', '--value', '--property=MainPID', `vmhost-${VM}`)
  const learnt = readTwin(commandOf(pid, first.root))
  const files = { kernel: learnt.kernelPath, initrd: learnt.initrdPath, seed: learnt.seedPath }
  for (const [name, path] of Object.entries(files)) {
    const copy = `${LIBVIRT_IMAGES}/${name}`
    await first.run('cp', path, copy)
    first.copyTo(second, copy)
  }
  await first.controller.remove(VM)
  return {
    ...learnt,
    kernelPath: `${LIBVIRT_IMAGES}/kernel`,
    initrdPath: `${LIBVIRT_IMAGES}/initrd`,
    seedPath: `${LIBVIRT_IMAGES}/seed`,
  }
}

async function ourClient(): Promise<CountingClient> {
  await first.controller.mutate('PUT', `/v1/vms/${VM}`, requestAt(first, OUR_ADDRESS, 'stopped'))
  await first.controller.settled(VM, 'stopped')
  await fill(first, `/var/lib/vmhostd/pool/disks/${VM}/disk.raw`)
  await first.controller.setPower(VM, 'running')
  await first.controller.settled(VM, 'running')
  await routeGuest(OUR_ADDRESS, first)
  return CountingClient.open(OUR_ADDRESS)
}

async function libvirtClient(): Promise<CountingClient> {
  const { name, ipv4Address, tap } = LIBVIRT_GUEST
  const diskPath = `${LIBVIRT_IMAGES}/disk`
  await first.run('cp', '--reflink=auto', '/srv/guest/rootfs.raw', diskPath)
  await first.run('truncate', `--size=${DISK_MIB}M`, diskPath)
  await fill(first, diskPath)
  const xml = renderDomain({
    ...{ name, board: 'q35', twin, memoryMib: MEMORY_MIB, diskPath, seedPath: twin.seedPath },
    tap,
  })
  await startGuest(first, xml)
  await routeGuest(ipv4Address, first)
  return CountingClient.open(ipv4Address)
}

/** Talks over the whole move, and returns how long the guest was silent. */
async function measured(client: CountingClient, move: () => Promise<number>): Promise<Sample> {
  client.talk(SEND_EVERY_MS)
  await client.hears(ANSWERS)
  client.takeLongestPauseMs()
  const totalMs = await move()
  await client.hears(ANSWERS)
  const pauseMs = client.takeLongestPauseMs()
  await client.rest()
  return { totalMs, pauseMs }
}

/** Moves ours as a controller does. Returns the milliseconds until the guest runs at its destination. */
async function moveOurs(round: number, source: LabHost, destination: LabHost): Promise<number> {
  const move = { vm: VM, migration: `${VM}-${round}`, from: source, to: destination }
  const startedAt = performance.now()
  await offer(move)
  await take(move)
  await seen(destination, VM, hasArrived)
  await routeGuest(OUR_ADDRESS, destination)
  await destination.controller.settled(VM, 'running')
  const tookMs = performance.now() - startedAt
  await source.controller.remove(VM)
  return tookMs
}

function handRow(): Measurement {
  const pauseOf = (taken: readonly Sample[]): number => median(taken.map(({ pauseMs }) => pauseMs))
  const figure = measurement({
    bench: 'migrate',
    metric: 'pause_by_hand_ms',
    unit: 'ms',
    ours: pauseOf(samples.ours),
    reference: pauseOf(byHand),
    reference_name: 'virsh save, curl over the same TLS, virsh restore',
    runs: ROUNDS,
  })
  return { ...figure, notes: NOTES.pause_by_hand_ms }
}

function streamRow(): Measurement {
  const mibps = (bytes: readonly number[]): number => median(bytes) / (1024 * 1024)
  const figure = measurement({
    bench: 'migrate',
    metric: 'mibps',
    unit: 'MiB/s',
    ours: mibps(rates.ours),
    reference: mibps(rates.file),
    reference_name: 'curl of a file, same bytes and TLS',
    runs: ROUNDS,
  })
  return { ...figure, notes: NOTES.mibps }
}

function row(metric: 'pause_ms' | 'total_ms', of: (sample: Sample) => number): Measurement {
  const figure = measurement({
    bench: 'migrate',
    metric,
    unit: 'ms',
    ours: median(samples.ours.map(of)),
    reference: median(samples.theirs.map(of)),
    reference_name: 'libvirt, virsh migrate --live --copy-storage-all --tls',
    runs: ROUNDS,
  })
  return { ...figure, notes: NOTES[metric] }
}
