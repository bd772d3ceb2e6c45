/** Changes of a VM that soak picks from. Each ends when the daemon has accepted it, or has done it. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { until } from '../lab/inside/until.ts'
import { pick } from '../test/sim/random.ts'
import type { Vm } from '../lab/controller-client.ts'
import type { SoakVm } from './soak-vm.ts'

const SETTLE_BOUND_MS = 120_000
const ECHO_PORT = 7

export const CHANGES: Readonly<Record<string, (vm: SoakVm) => Promise<unknown>>> = {
  async resize(vm) {
    await stop(vm)
    await setCompute(vm, 0, pick(vm.random, [96, 160, 192]))
    await start(vm)
    await stop(vm)
    await setCompute(vm, 0)
  },
  label: ({ client, id, random }) =>
    client.mutate('PUT', `/v1/vms/${id}/metadata`, { labels: { round: String(Math.floor(random() * 100)) } }),
  limit: ({ client, id, random }) =>
    client.mutate('PUT', `/v1/vms/${id}/network`, {
      bandwidth: { receive_mbit_per_second: pick(random, [10, 20, 50]) },
    }),
  power: ({ client, id, random }) => client.setPower(id, pick(random, ['running', 'paused', 'stopped'])),
  async stopAndStart(vm) {
    await stop(vm)
    await start(vm)
  },
  async reboot({ client, id }) {
    await client.setPower(id, 'running')
    await client.mutate('POST', `/v1/vms/${id}/reboot`, {})
    await client.settled(id, 'running', SETTLE_BOUND_MS)
  },
  async replace({ client, id, request }) {
    await client.remove(id)
    await client.mutate('PUT', `/v1/vms/${id}`, request)
  },
  async sleepAndAskFor(vm) {
    await fallAsleep(vm)
    await start(vm)
  },
  async sleepAndSendTo(vm) {
    const before = (await fallAsleep(vm)).observed.last_wake?.at
    await sendTo(vm.ipv4)
    await until(
      `a packet wakes ${vm.id}`,
      async () => {
        const { last_wake: wake } = (await vm.client.getVm(vm.id)).observed
        return wake !== undefined && wake.at !== before ? true : undefined
      },
      SETTLE_BOUND_MS,
    )
    await setCompute(vm, 0)
  },
}

async function start({ client, id }: SoakVm): Promise<void> {
  await client.setPower(id, 'running')
  await client.settled(id, 'running', SETTLE_BOUND_MS)
}

async function stop({ client, id }: SoakVm): Promise<void> {
  await client.setPower(id, 'stopped')
  await client.settled(id, 'stopped', SETTLE_BOUND_MS)
}

async function fallAsleep(vm: SoakVm): Promise<Vm> {
  const { client, id } = vm
  await client.setPower(id, 'running')
  await setCompute(vm, 1)
  return client.settled(id, 'sleeping', SETTLE_BOUND_MS)
}

const setCompute = ({ client, id }: SoakVm, sleepAfterIdleSeconds: number, memoryMib = 128): Promise<Vm> =>
  client.mutate('PUT', `/v1/vms/${id}/compute`, {
    cpu_millicores: 1000,
    memory_mib: memoryMib,
    sleep_after_idle_seconds: sleepAfterIdleSeconds,
  })

/** Sends one datagram. A stand-in does not answer, and the kernel reports that a guest which boots is not there. */
async function sendTo(address: string): Promise<void> {
  const socket = createSocket('udp4')
  socket.on('error', () => {})
  socket.connect(ECHO_PORT, address)
  await once(socket, 'connect')
  await new Promise((resolve) => socket.send('wake', resolve))
  socket.close()
}
