/**
 * The guests of a host that reboots, seen from inside it. `make` makes them, `look` waits until they are as they should
 * be after the boot. Both print what they found as JSON.
 */
import { call, closeController, getVm, mutate, settled } from '../../lab/inside/controller.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { asleep, makeSleeper, sleeper, sleepAfter } from '../../lab/inside/sleepers.ts'
import type { Vm } from '../../lab/inside/controller.ts'

/** A guest that answers: which boot of its kernel it is, how long that runs by its own clock, and its last wake. */
export type SeenGuest = {
  readonly bootId: string
  readonly uptimeSeconds: number
  readonly wake?: NonNullable<Vm['observed']['last_wake']>
}

export type SeenGuests = {
  /** Guests that run. */
  readonly running: readonly SeenGuest[]
  /** States of the VMs that do not run. */
  readonly states: Readonly<Record<string, string>>
}

const RUNNING = [1, 2, 3, 4, 5, 6].map((number) => sleeper('count', number))
const SLEEPING = sleeper('asleep', 20)
const PAUSED = 'paused-1'
const STOPPED = 'stopped-1'
const NO_NETWORK = 'alone-1'

const look = async (address: string, id: string): Promise<SeenGuest> => {
  const { text, bootId } = await servedPage(address)
  const { last_wake: wake } = (await getVm(id)).observed
  const uptimeSeconds = Number(/up for ([\d.]+) seconds/.exec(text)?.[1])
  return { bootId, uptimeSeconds, ...(wake === undefined ? {} : { wake }) }
}

async function lookAtAll(): Promise<SeenGuests> {
  for (const id of [NO_NETWORK, ...RUNNING.map((one) => one.id)]) await settled(id, 'running', 120_000)
  const running = await Promise.all(RUNNING.map(({ id, ipv4 }) => look(ipv4, id)))
  await asleep(SLEEPING.id)
  await settled(PAUSED, 'paused', 120_000)
  const states = await Promise.all(
    [SLEEPING.id, PAUSED, STOPPED].map(async (id) => [id, (await getVm(id)).observed.state]),
  )
  return { running, states: Object.fromEntries(states) as Record<string, string> }
}

async function makeAll(): Promise<void> {
  for (const one of RUNNING) {
    await makeSleeper(one)
    await sleepAfter(one.id, 0)
  }
  await makeSleeper(SLEEPING)
  for (const [id, power] of [
    [PAUSED, 'running'],
    [NO_NETWORK, 'running'],
    [STOPPED, 'stopped'],
  ] as const)
    await mutate('PUT', `/v1/vms/${id}`, guestRequest({ power }))
  for (const id of [PAUSED, NO_NETWORK]) await settled(id, 'running', 120_000)
  await call('PUT', `/v1/vms/${PAUSED}/power`, { state: 'paused' })
}

if (process.argv[2] === 'make') await makeAll()
const seen = await lookAtAll()
closeController()
console.log(JSON.stringify(seen))
