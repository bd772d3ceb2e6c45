import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import type { TapMaking } from '../../src/core/world/network-state.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, linesOf } from '../contract/child.ts'
import { until } from '../contract/until.ts'

export type Holder = {
  readonly pid: number
  /** Changes the tap by the descriptor that the process holds. */
  change(change: Partial<TapMaking>): Promise<void>
  end(): Promise<void>
}

/** Starts a process that holds a tap as a monitor does. */
export async function holdTap(t: TestContext, { device, userId }: TapSpec): Promise<Holder> {
  const script = `${import.meta.dirname}/tap-holder.ts`
  const process_ = spawn(process.execPath, [script, device, String(userId)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const line = linesOf(process_)
  const end = (): Promise<void> => endChild(process_)
  atEnd(t, end)
  assert.equal(await line(), 'ready')
  assert.ok(process_.pid !== undefined)
  const change = async (wanted: Partial<TapMaking>): Promise<void> => {
    process_.stdin.write(`${JSON.stringify(wanted)}\n`)
    assert.equal(await line(), 'changed')
  }
  return { pid: process_.pid, change, end }
}

/**
 * The kernel reports two things some time after a new device: its state, up to a second later (linkwatch,
 * net/core/link_watch.c), and the routes of its link-local address (addrconf_dad_work, net/ipv6/addrconf.c).
 */
export async function isSettled(device: string): Promise<void> {
  await until(
    async () => (await run(['ip', 'link', 'show', 'dev', device])).stdout,
    (text) => text.includes('state DOWN'),
  )
  await until(
    async () => (await run(['ip', '-6', 'route', 'show', 'table', 'local', 'dev', device])).stdout,
    (text) => text.includes('anycast fe80::'),
  )
}
