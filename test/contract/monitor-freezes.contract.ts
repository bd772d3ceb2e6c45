import assert from 'node:assert/strict'
import type { MonitorState } from '../../src/core/world/world.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Monitor } from '../../src/ports/monitor.ts'
import type { MonitorStage } from './monitor-stage.ts'
import { until } from './until.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal

type Promises = {
  readonly promise: (what: string, body: (stage: MonitorStage) => Promise<void>) => void
  readonly reaches: (monitor: Monitor, vm: VmId, kind: MonitorState['kind']) => Promise<MonitorState>
}

/** Promises of every monitor about the agent in a guest. */
export function agentPromises({ promise, reaches }: Promises): void {
  promise(
    'an agent is seen once it listens in a running guest, and not when the guest has ended',
    async (stage) => {
      const { monitor, start, useDisk, end } = stage
      await start(id, { paused: false })
      await reaches(monitor, id, 'running')
      await useDisk(id)
      await until(
        () => monitor.agentListens(id),
        (isThere) => isThere,
        60_000,
      )
      await end(id)
      await assert.rejects(monitor.agentListens(id), { code: 'monitor_unreachable' })
    },
  )
}

/** Promises of every monitor about the file systems in a guest. */
export function freezePromises({ promise, reaches }: Promises): void {
  const started = async ({ monitor, start }: MonitorStage): Promise<void> => {
    await start(id, { paused: false })
    await reaches(monitor, id, 'running')
  }

  promise('a guest with an agent writes nothing between freezing and thawing', async (stage) => {
    const { monitor, useDisk, write } = stage
    await started(stage)
    await useDisk(id)
    assert.equal(await write(id), 'written')
    for (const _ of [1, 2]) {
      assert.equal(await monitor.agent.freeze(id, never), 'frozen')
      assert.equal(await write(id), 'waits')
      await monitor.ensurePaused(id, never)
      await monitor.ensureRunning(id, never)
      assert.equal(await write(id), 'waits')
      assert.equal(await monitor.agent.thaw(id, never), true)
      assert.equal(await write(id), 'written')
    }
    assert.equal(await monitor.agent.thaw(id, never), true)
    assert.equal(await write(id), 'written')
  })

  promise('an aborted freeze leaves nothing frozen', async (stage) => {
    const { monitor, useDisk, write } = stage
    await started(stage)
    await useDisk(id)
    const aborting = new AbortController()
    const freezing = monitor.agent.freeze(id, aborting.signal)
    aborting.abort(new Error('the VM is being deleted'))
    assert.equal(await freezing, 'none')
    assert.equal(await monitor.agent.freeze(id, aborting.signal), 'none')
    assert.equal(await write(id), 'written')
  })

  promise(
    'a guest that was frozen when it was paused stays so until it runs and is asked again',
    async (stage) => {
      const { monitor, useDisk, write } = stage
      await started(stage)
      await useDisk(id)
      assert.equal(await monitor.agent.freeze(id, never), 'frozen')
      await monitor.ensurePaused(id, never)
      assert.equal(await monitor.agent.thaw(id, never), false)
      assert.equal(await monitor.agent.thaw(id, AbortSignal.abort()), false)
      await monitor.ensureRunning(id, never)
      await until(
        () => monitor.agent.thaw(id, never),
        (isThawed) => isThawed,
        60_000,
      )
      assert.equal(await write(id), 'written')
    },
  )

  promise('a guest that has ended has nothing frozen', async (stage) => {
    const { monitor, end } = stage
    const isOver = async (): Promise<void> => {
      assert.equal(await monitor.agent.freeze(id, never), 'none')
      assert.equal(await monitor.agent.thaw(id, never), true)
    }
    await isOver()
    await started(stage)
    await end(id)
    await isOver()
  })
}
