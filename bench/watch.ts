/** watch: what the program on a tap costs each packet, and what the daemon costs while 500 VMs sleep. */
import { closeSync, readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { closeController } from '../lab/inside/controller.ts'
import { sh } from '../lab/inside/shell.ts'
import { library } from '../src/host/ffi/koffi.ts'
import { TrafficProgram } from '../src/host/ebpf/traffic-program.ts'
import { makeStopped, putToSleep } from './asleep-many.ts'
import { CPU_SECONDS, cpuAtRest } from './at-rest.ts'
import { removeAll } from './many-vms.ts'
import { measurement, median, progress } from './measurement.ts'
import { FastSender } from './watch-sender.ts'
import type { Measurement } from './measurement.ts'
import type { UserId } from '../src/core/ids.ts'

const DEVICE = 'benchtap0'
const ADDRESS = '203.0.113.9'
const USER_ID = 999_999 as UserId
const ROUNDS = 12
const ROUND_MS = 1000
const ASLEEP = 500
const OBJECT = '/src/dist/bpf/traffic.bpf.o'
const DIRECTORY = '/run/bench-watch'

type Program = { readonly run_time_ns?: number; readonly run_cnt?: number }

const rows = [await packets(), await asleepCpu()]
closeController()
console.log(JSON.stringify(rows))

async function packets(): Promise<Measurement> {
  await sh('ip', 'tuntap', 'add', 'dev', DEVICE, 'mode', 'tap')
  await sh('ip', 'link', 'set', 'dev', DEVICE, 'up')
  await sh('ip', 'address', 'add', '203.0.113.1/32', 'dev', DEVICE)
  await sh('ip', 'route', 'add', `${ADDRESS}/32`, 'dev', DEVICE)
  const neighbour = ['lladdr', '02:76:ff:00:00:09', 'dev', DEVICE, 'nud', 'permanent']
  await sh('ip', 'neighbour', 'replace', ADDRESS, ...neighbour)
  const count = new Int32Array(new SharedArrayBuffer(8))
  const reader = new Worker(`${import.meta.dirname}/watch-reader.ts`, {
    workerData: { device: DEVICE, count },
  })
  await Atomics.waitAsync(count, 1, 0).value
  const ifindex = Number(readFileSync(`/sys/class/net/${DEVICE}/ifindex`, 'utf8'))
  await sh('mkdir', '-p', DIRECTORY)
  const program = new TrafficProgram({ object: () => readFileSync(OBJECT), directory: DIRECTORY })
  const sender = new FastSender(ADDRESS, 9)
  const plain: number[] = []
  const watched: number[] = []
  const round = (): number => {
    const before = Atomics.load(count, 0)
    sender.sendFor(ROUND_MS)
    return (Atomics.load(count, 0) - before) / (ROUND_MS / 1000)
  }
  round()
  for (let index = 0; index < ROUNDS; index += 1) {
    await sh('sh', '-c', `tc qdisc delete dev ${DEVICE} clsact 2>/dev/null || true`)
    plain.push(round())
    program.setGuest(ifindex, { userId: USER_ID, frames: 'flowing' })
    await program.attach(ifindex)
    watched.push(round())
    progress(`${index + 1} of ${ROUNDS}: ${watched.at(-1)} packets/s, ${plain.at(-1)} without the program`)
  }
  const counted = program.activity(USER_ID)?.packets ?? 0
  if (counted < watched.reduce((sum, one) => sum + one, 0) * (ROUND_MS / 1000) * 0.99)
    throw new Error(`the program counted ${counted} packets, fewer than were sent`)
  const cost = await costOf(round)
  sender.close()
  await sh('ip', 'link', 'delete', 'dev', DEVICE)
  await reader.terminate()
  await sh('umount', DIRECTORY)
  return {
    ...measurement({
      bench: 'watch',
      metric: 'packets_per_s',
      unit: 'packets/s',
      ours: median(watched),
      reference: median(plain),
      reference_name: 'the same tap without the program',
      runs: ROUNDS,
    }),
    notes: [
      'datagrams of 18 bytes from one core into a tap that another one reads, as a monitor would',
      `the kernel's own count (BPF_ENABLE_STATS): ${cost.toFixed(0)} ns a packet in the program`,
    ],
  }
}

/**
 * Returns the nanoseconds of one run of the program, by the kernel's own count. The kernel counts while a process has
 * requested it.
 */
async function costOf(round: () => number): Promise<number> {
  const asked = Number(library('libbpf.so.1').func('int bpf_enable_stats(int type)')(0))
  if (asked < 0) throw new Error('the kernel does not count the time of programs')
  round()
  const shown = JSON.parse(await sh('bpftool', '--json', 'prog', 'show')) as readonly Program[]
  closeSync(asked)
  const [busiest] = shown.toSorted((one, two) => (two.run_cnt ?? 0) - (one.run_cnt ?? 0))
  return (busiest?.run_time_ns ?? NaN) / (busiest?.run_cnt ?? NaN)
}

/** Measures the daemon's processor time while nothing happens, with so many VMs asleep, and with as many stopped. */
async function asleepCpu(): Promise<Measurement> {
  const stopped = await makeStopped('bench-asleep', ASLEEP)
  const stoppedPercent = await cpuAtRest()
  const ids = await putToSleep(stopped)
  const ours = await cpuAtRest()
  await removeAll(ids)
  return {
    ...measurement({
      bench: 'watch',
      metric: `cpu_${ASLEEP}_asleep_percent`,
      unit: '%',
      ours,
      reference: stoppedPercent,
      reference_name: `the same ${ASLEEP} VMs stopped`,
      runs: 1,
    }),
    notes: [
      `of one core, over ${CPU_SECONDS} s; one guest was saved, and copies of what was saved were placed beside the disks of the others`,
    ],
  }
}
