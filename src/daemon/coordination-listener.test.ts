import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../config/config.ts'
import { until } from '../../test/contract/until.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { openCoordinationListener } from './coordination-listener.ts'
import { createAuthority, issueCertificate } from './setup/certificates.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

/** Opens the listener of a host on a port, without its certificate. */
async function openWithoutFiles(t: TestContext, port: number) {
  const directory = mkdtempSync(join(tmpdir(), 'coordination-listener-'))
  const at = (name: string): string => join(directory, name)
  const tables = [
    `[controller]\nca_file = "${at('ca.crt')}"\ncertificate_file = "${at('server.crt')}"`,
    `[coordination]\nlisten_address = "127.0.0.1"\nport = ${port}`,
  ]
  const { log, lines } = recordingLog()
  const listener = await openCoordinationListener({
    dependencies: {
      departures: () => undefined,
      waitingFor: () => [],
      errorsMarkdown: () => new Uint8Array(),
      version: '1.2.3',
      log,
    },
    config: parseConfig(tables.join('\n'), { path: 'config.toml', hostname: 'host-1' }),
    retryMs: 5,
  })
  t.after(async () => {
    await listener.close(0)
    rmSync(directory, { recursive: true })
  })
  const writeFiles = async (): Promise<void> => {
    const authority = await createAuthority('authority', Date.now())
    const leaf = { commonName: 'host-1', alternativeNames: [], usages: ['server', 'client'] } as const
    const pair = await issueCertificate(authority, leaf, Date.now())
    writeFileSync(at('ca.crt'), authority.certificate)
    writeFileSync(at('node.crt'), pair.certificate)
    writeFileSync(at('node.key'), pair.key)
  }
  return { listener, lines, writeFiles }
}

/** Takes a port that is free now. */
async function takePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port }
}

test('without its files or its port the listener is tried again, and each reason is logged once', async (t) => {
  const { server, port } = await takePort()
  const { listener, lines, writeFiles } = await openWithoutFiles(t, port)
  const errors = (): string[] =>
    lines.filter(({ level }) => level === 'error').map((line) => String(line['error']))
  assert.equal(listener.port, undefined)
  assert.match(errors().join('\n'), /ca\.crt cannot be read/)
  await writeFiles()
  await until(errors, (found) =>
    found.some((error) => /another program has port .* set coordination\.port/.test(error)),
  )
  server.close()
  await until(
    () => listener.port,
    (found) => found === port,
  )
  assert.equal(new Set(errors()).size, errors().length)
  assert.ok(lines.some(({ message, listener: name }) => message === 'listening' && name === 'coordination'))
})
