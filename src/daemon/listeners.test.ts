import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseConfig } from '../config/config.ts'
import { errorChain } from '../log/error-chain.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { refuseCall } from '../../test/refuse-call.ts'
import { bindControllerListener, openCoordinationListener } from './listeners.ts'
import { createAuthority, issueCertificate } from './setup/certificates.ts'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { until } from '../../test/contract/until.ts'
import type { TestContext } from 'node:test'
import type { AddressInfo } from 'node:net'

const AF_INET6 = 10
// As a kernel that was booted with ipv6.disable=1, for all tests of this file.
refuseCall('socket', 'EAFNOSUPPORT', AF_INET6)

/** Binds the listener of a host that is set up, at this address. Port 0 lets the kernel choose. */
async function bindAt(t: TestContext, address: string) {
  const directory = mkdtempSync(join(tmpdir(), 'controller-listener-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const at = (name: string): string => join(directory, name)
  const authority = await createAuthority('authority', Date.now())
  const leaf = { commonName: 'host-1', alternativeNames: [], usages: ['server'] } as const
  const pair = await issueCertificate(authority, leaf, Date.now())
  writeFileSync(at('ca.crt'), authority.certificate)
  writeFileSync(at('server.crt'), pair.certificate)
  writeFileSync(at('server.key'), pair.key)
  const { controller, coordination } = parseConfig('', { path: 'config.toml', hostname: 'host-1' })
  const files = { caFile: at('ca.crt'), certificateFile: at('server.crt'), keyFile: at('server.key') }
  const { log, lines } = recordingLog()
  const config = { controller: { ...controller, ...files, listenAddress: address, port: 0 }, coordination }
  const bound = await bindControllerListener(config, log)
  t.after(() => bound.close())
  return { bound, lines }
}

const refusalAt = async (t: TestContext, address: string): Promise<string> => {
  try {
    await bindAt(t, address)
    return 'it is bound'
  } catch (error) {
    return errorChain(error)
  }
}

test('on a kernel without IPv6 the default address means all addresses of IPv4, and the log says so once', async (t) => {
  const { bound, lines } = await bindAt(t, '::')
  assert.ok(bound.port > 0)
  assert.deepEqual(
    lines.map(({ message, address }) => [message, address]),
    [
      ['IPv6 not found in this kernel: listening at the addresses of IPv4 alone', '0.0.0.0'],
      ['listening', '0.0.0.0'],
    ],
  )
})

test('an address that the host cannot have is not replaced, and the refusal names the key', async (t) => {
  assert.match(
    await refusalAt(t, '[::1]'),
    /^this host has no IPv6, but \[::1\] is of it: .*set controller\.listen_address .*EAFNOSUPPORT/,
  )
  // TEST-NET-1 of RFC 5737.
  assert.match(
    await refusalAt(t, '192.0.2.1'),
    /^192\.0\.2\.1 is not an address of this host: .*set controller\.listen_address .*EADDRNOTAVAIL/,
  )
})

/** Opens the listener of a host on a port, without its certificate. */
async function openWithoutFiles(t: TestContext, port: number) {
  const directory = mkdtempSync(join(tmpdir(), 'coordination-listener-'))
  const at = (name: string): string => join(directory, name)
  const tables = [
    `[controller]\nca_file = "${at('ca.crt')}"\ncertificate_file = "${at('server.crt')}"`,
    `[coordination]\nlisten_address = "127.0.0.1"\nport = ${port}`,
  ]
  const { log, lines } = recordingLog()
  const noted: string[] = []
  const listener = await openCoordinationListener({
    dependencies: {
      departures: () => undefined,
      waitingFor: () => [],
      errorsMarkdown: () => new Uint8Array(),
      noteFiles: (refused) => noted.push(errorChain(refused)),
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
  return { listener, lines, noted, writeFiles }
}

/** Takes a port that is free now. */
async function takePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port }
}

test('without its files or its port the listener is tried again, and each reason is logged once', async (t) => {
  const { server, port } = await takePort()
  const { listener, lines, noted, writeFiles } = await openWithoutFiles(t, port)
  const errors = (): string[] =>
    lines.filter(({ level }) => level === 'error').map((line) => String(line['error']))
  assert.equal(listener.port, undefined)
  assert.match(errors().join('\n'), /ca\.crt cannot be read/)
  assert.match(noted.at(-1) ?? '', /ca\.crt cannot be read/)
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
  assert.equal(noted.at(-1), '')
  assert.ok(lines.some(({ message, listener: name }) => message === 'listening' && name === 'coordination'))
})
