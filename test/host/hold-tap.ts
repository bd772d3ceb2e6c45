import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { TestContext } from 'node:test'
import type { TapSpec } from '../../src/core/network/tap.ts'
import { run } from './run.ts'
import { atEnd } from '../contract/at-end.ts'
import { endChild, firstLine } from '../contract/child.ts'
import { until } from '../contract/until.ts'

export type Holder = {
  readonly pid: number
  end(): Promise<void>
}

/** Starts a process that holds a tap as a monitor does. */
export async function holdTap(t: TestContext, { device, userId }: TapSpec): Promise<Holder> {
  const script = `${import.meta.dirname}/tap-holder.ts`
  const process_ = spawn(process.execPath, [script, device, String(userId)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const end = (): Promise<void> => endChild(process_)
  atEnd(t, end)
  assert.equal(await firstLine(process_), 'ready')
  assert.ok(process_.pid !== undefined)
  return { pid: process_.pid, end }
}

/**
 * The kernel reports the state of a new device some time after the device, up to a second (linkwatch,
 * net/core/link_watch.c).
 */
export async function isSettled(device: string): Promise<void> {
  await until(
    async () => (await run(['ip', 'link', 'show', 'dev', device])).stdout,
    (text) => text.includes('state DOWN'),
  )
}
