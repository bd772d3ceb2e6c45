import assert from 'node:assert/strict'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { makeSleeper } from '../../lab/inside/sleepers.ts'
import { sharedHost } from './shared-host.ts'
import type { Sleeper } from '../../lab/inside/sleepers.ts'

/**
 * Longer than the answer time of a guest that is emulated on a busy machine, so that only its traffic keeps it awake.
 */
export const IDLE_SECONDS = 2

/** Life of a guest: it ends with a boot. */
export type Life = { bootId: string; assertSame(): Promise<void> }

/** Makes a VM that the tests of a file share under the installed daemon. */
export function sleeperOfTests(one: Sleeper): Life {
  const life: Life = {
    bootId: '',
    async assertSame() {
      assert.equal((await servedPage(one.ipv4)).bootId, life.bootId, 'the guest was booted again')
    },
  }
  sharedHost({
    make: async () => {
      await makeSleeper(one, { sleepAfterIdleSeconds: IDLE_SECONDS })
      life.bootId = (await servedPage(one.ipv4)).bootId
    },
  })
  return life
}
