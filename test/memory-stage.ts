import assert from 'node:assert/strict'
import { limits } from '../src/config/limits.ts'
import { heldMemoryMib } from '../src/core/capacity/ledger.ts'
import { IDLE_MS, SLEEPER, sleepStage } from './sleep-stage.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../src/core/ids.ts'
import type { VmRecord } from '../src/core/vm/record.ts'

export const named = (number: number): VmId => `web-${number}` as VmId

/** Three sleepers on a host that has memory for `places` of them, and that lends all of it. */
export async function memoryStage(t: TestContext, places: number) {
  const stage = await sleepStage(t)
  const { store, capacity, context, host, idle, later } = stage
  capacity.sleepRatio = 0
  for (const number of [2, 3]) stage.createAnother(number)
  await idle()
  await later(IDLE_MS)
  await later(IDLE_MS)
  capacity.total.memoryMib = places * SLEEPER.memoryMib
  const vm = (number: number): VmRecord => store.vms.get(named(number)) ?? assert.fail(`${number} is gone`)
  const states = (): string => [1, 2, 3].map((number) => vm(number).observed.state).join(' ')
  assert.equal(states(), 'sleeping sleeping sleeping')
  return {
    ...stage,
    one: vm,
    states,
    heldMib: (): number => heldMemoryMib(store.vms.recorded(), context.capacity.memoryTerms()),
    /** Lets one pass lead to the next, of this VM or another. */
    passes: async (): Promise<void> => {
      for (let pass = 0; pass < 3; pass += 1) await later(limits.sleepRecheckMs)
    },
    places: (): (number | undefined)[] => [1, 2, 3].map((number) => vm(number).observed.memoryQueue?.place),
    receive: async (number: number): Promise<void> => {
      host.traffic.receive(vm(number).host.device, { name: `packet for ${number}` })
      await idle()
    },
  }
}
