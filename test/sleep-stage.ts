import assert from 'node:assert/strict'
import { reconcileStage } from './reconcile-stage.ts'
import type { StageOptions } from './reconcile-stage.ts'
import type { VmId } from '../src/core/ids.ts'
import type { TestContext } from 'node:test'

export const SLEEPER = { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 60 }
export const IDLE_MS = SLEEPER.sleepAfterIdleSeconds * 1000

/** A VM that runs, and sleeps after a minute without traffic. */
export async function sleepStage(t: TestContext, options: StageOptions = {}) {
  const stage = await reconcileStage(t, options)
  const { host, vm, id, later } = stage
  stage.create({ compute: SLEEPER })
  await stage.idle()
  assert.equal(stage.shown(), 'running')
  const { life } = host.monitor.memoryOf(id)
  return {
    ...stage,
    /** Creates a similar VM with another address. */
    createAnother: (number: number): void => {
      stage.create(
        { compute: SLEEPER, network: { ipv4Address: `192.0.2.${number}` } },
        `web-${number}` as VmId,
      )
    },
    fallAsleep: async (): Promise<void> => {
      await later(IDLE_MS)
      assert.equal(stage.shown(), 'sleeping')
    },
    /** Lets time pass until the VM is due. Its next action has then begun, and is not awaited. */
    beDue: async (): Promise<void> => {
      stage.clock.advance(IDLE_MS)
      await stage.turns()
    },
    /** Delivers a packet for the guest. */
    receive: (name: string) => host.traffic.receive(vm().host.device, { name }),
    given: () => host.traffic.given(vm().host.userId),
    /** Whether the current guest is the one that was booted first, and runs. */
    goesOn: (): boolean =>
      host.monitor.stateOf(id).kind === 'running' && host.monitor.memoryOf(id).life === life,
  }
}
