/** A daemon with fake consoles, and a browser that may visit it. */
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { ensurePages } from '../../../tools/page-bundle.ts'
import { createBody, makePki, startControllerHost } from '../../daemon/support/controller-host.ts'
import { openBrowser, skip, visit } from './browser.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../../src/core/ids.ts'
import type { ControllerHost, Pki } from '../../daemon/support/controller-host.ts'
import type { OpenBrowser, Visit } from './browser.ts'

export const VM = 'web-1' as VmId

export type ConsoleStage = { readonly host: ControllerHost; readonly visited: Visit }

/** Prepares all tests of a file, which share one browser. Must be called at the top of the file. */
export function consoleStages(): (
  t: TestContext,
  options?: { readonly running?: boolean },
) => Promise<ConsoleStage> {
  let pki: Pki
  let browser: OpenBrowser | undefined
  before(async () => {
    if (skip !== false) return
    await ensurePages()
    pki = await makePki()
    browser = await openBrowser()
  })
  after(async () => browser?.close())
  /** Starts a daemon with one VM, and a page with the controller's certificate. The console is open unless changed. */
  return async (t, { running = true } = {}) => {
    assert.ok(browser)
    const host = await startControllerHost(t, pki)
    const { status } = await host.call({ method: 'PUT', path: `/v1/vms/${VM}`, body: createBody() })
    assert.equal(status, 202)
    if (running) await host.host.consoles.ensureMaster(VM)
    return { host, visited: await visit(t, browser, { port: host.port, ...pki.controller }) }
  }
}
