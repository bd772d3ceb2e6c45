/** A daemon whose VMs a test sets, and a browser that may visit it. */
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { ensurePages } from '../../../tools/page-bundle.ts'
import { createBody, makePki, startControllerHost } from '../../daemon/support/controller-host.ts'
import { openBrowser, skip, visit } from './browser.ts'
import type { TestContext } from 'node:test'
import type { ConfiguredClient } from '../../../src/api/controller/clients.ts'
import type { VmId } from '../../../src/core/ids.ts'
import type { Observed } from '../../../src/core/vm/record.ts'
import type { ControllerHost, Pki } from '../../daemon/support/controller-host.ts'
import type { OpenBrowser, Visit, VisitOptions } from './browser.ts'

export type HostStage = {
  readonly host: ControllerHost
  /** Opens an empty page with the certificate of the controller, or with that of a client of this stage. */
  visit(client?: string, context?: VisitOptions['context']): Promise<Visit>
}

type StageOptions = {
  /** VMs that the host may have. */
  readonly vms?: number
  readonly clients?: readonly ConfiguredClient[]
}

/** Prepares all tests of a file, which share one browser. Must be called at the top of the file. */
export function hostStages(): (t: TestContext, options?: StageOptions) => Promise<HostStage> {
  let pki: Pki
  let browser: OpenBrowser | undefined
  before(async () => {
    if (skip !== false) return
    await ensurePages()
    pki = await makePki()
    browser = await openBrowser()
  })
  after(async () => browser?.close())
  return async (t, { vms = 20, clients = [] } = {}) => {
    const host = await startControllerHost(t, pki, { userIds: vms, clients })
    return {
      host,
      async visit(client, context) {
        assert.ok(browser)
        const pair = client === undefined ? pki.controller : await pki.issue({ commonName: client })
        return visit(t, browser, { port: host.port, ...pair, ...(context === undefined ? {} : { context }) })
      },
    }
  }
}

/** Creates a VM through the API; `changes` replaces members of the request. */
export async function createVm(host: ControllerHost, id: string, changes: object = {}): Promise<void> {
  const body = createBody({ network: undefined, ...changes })
  const { status, text } = await host.call({ method: 'PUT', path: `/v1/vms/${id}`, body })
  assert.equal(status, 202, text)
}

/** Lets the daemon find a VM in a state; its desired state is reached unless `isReached` is false. */
export function observe(
  { store, clock }: ControllerHost,
  id: string,
  observed: Partial<Observed>,
  isReached = true,
): void {
  const record = store.vms.get(id as VmId) ?? assert.fail(`there is no VM ${id}`)
  store.vms.recordProgress(id as VmId, {
    observed: { state: 'running', sinceMs: clock.now(), ...observed },
    ...(isReached ? { observedGeneration: record.generations.desired } : {}),
    nowMs: clock.now(),
  })
}

/** Deletes a VM, and lets its record go at once. */
export async function remove(host: ControllerHost, id: string): Promise<void> {
  const { status, text } = await host.call({ method: 'DELETE', path: `/v1/vms/${id}` })
  assert.equal(status, 202, text)
  host.store.vms.forget(id as VmId, host.clock.now())
}
