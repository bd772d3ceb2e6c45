/** VMs of a lab that sleep when they are idle. */
import { createSocket } from 'node:dgram'
import { getVm, mutate, settled } from './controller.ts'
import { guestRequest } from './guest.ts'
import { sh } from './shell.ts'
import { until } from './until.ts'
import type { GuestOptions } from './guest.ts'
import type { Vm } from './controller.ts'

/** A guest without an echo server refuses the datagrams, and they count as traffic all the same. */
export const ECHO_PORT = 7
/** Far more often than an idle guest falls asleep. */
const OFTEN_MS = 500

export type Sleeper = {
  readonly id: string
  readonly ipv4: string
  readonly ipv6: string
}

/** Names the `number`th VM of a family. */
export const sleeper = (prefix: string, number: number): Sleeper => ({
  id: `${prefix}-${number}`,
  ipv4: `198.51.100.${number}`,
  ipv6: `2001:db8:5::${number}`,
})

export type SleeperOptions = Omit<GuestOptions, 'network'> & {
  readonly memoryMib?: number
  readonly sleepAfterIdleSeconds?: number
}

/** Returns its create request. */
export const sleeperRequest = (
  { ipv4, ipv6 }: Sleeper,
  { memoryMib = 128, sleepAfterIdleSeconds = 1, ...options }: SleeperOptions = {},
): object => ({
  ...guestRequest({ ...options, network: { ipv4_address: ipv4, ipv6_address: ipv6 } }),
  compute: {
    cpu_millicores: 1000,
    memory_mib: memoryMib,
    sleep_after_idle_seconds: sleepAfterIdleSeconds,
  },
})

/**
 * Creates it awake, waits until it serves, and only then lets it sleep. A guest that slept while it boots would test
 * something else.
 */
export async function makeSleeper(one: Sleeper, options: SleeperOptions = {}): Promise<void> {
  await mutate('PUT', `/v1/vms/${one.id}`, sleeperRequest(one, { ...options, sleepAfterIdleSeconds: 0 }))
  await settled(one.id, 'running')
  await until(`${one.id} serves its page`, () =>
    sh('curl', '--silent', '--fail', '--location', '--max-time', '2', `http://${one.ipv4}/`),
  )
  await sleepAfter(one.id, options.sleepAfterIdleSeconds ?? 1, options.memoryMib)
}

/** Changes the timeout; 0 keeps it awake. */
export const sleepAfter = (id: string, seconds: number, memoryMib = 128): Promise<Vm> =>
  mutate('PUT', `/v1/vms/${id}/compute`, {
    cpu_millicores: 1000,
    memory_mib: memoryMib,
    sleep_after_idle_seconds: seconds,
  })

/** Sends a guest datagrams, which wake it and keep it awake, until `end`. */
export function keptAwake(address: string): { end(): void } {
  const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4')
  socket.on('error', () => {})
  const timer = setInterval(() => socket.send('awake', ECHO_PORT, address), OFTEN_MS)
  return {
    end() {
      clearInterval(timer)
      socket.close()
    },
  }
}

/** Waits until it sleeps. */
export const asleep = (id: string, boundMs?: number): Promise<Vm> => settled(id, 'sleeping', boundMs)

/** Waits until its wake is reported. It may sleep again by then. `after` is the time of the earlier wake. */
export const awake = (id: string, after?: string): Promise<Vm> =>
  until(`${id} has been woken`, async () => {
    const vm = await getVm(id)
    const { last_wake } = vm.observed
    return last_wake !== undefined && last_wake.at !== after ? vm : undefined
  })
