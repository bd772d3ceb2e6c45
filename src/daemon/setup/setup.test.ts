import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import fs, {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import { machine, nowMs } from '../../../test/setup-machine.ts'
import { parseConfig } from '../../config/config.ts'
import { UsageError } from '../usage-error.ts'
import { createAuthority } from './certificates.ts'
import type { TestContext } from 'node:test'

const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8)

test('a bare host gets directories, a marked pool, a configuration and certificates, and advice on what to do next', async (t) => {
  const { at, options, marked, run } = machine(t)
  const { status, text } = await run(options)
  assert.equal(status, 0, text)
  assert.deepEqual(marked, [at('state/pool')])
  assert.equal(modeOf(at('state')), '711')
  assert.equal(modeOf(at('tls')), '700')
  for (const name of ['ca', 'server', 'controller', 'node'])
    assert.equal(modeOf(at(`tls/${name}.key`)), '600')
  assert.equal(modeOf(at('state/ssh/id_ed25519')), '600')
  assert.match(readFileSync(at('state/ssh/id_ed25519.pub'), 'utf8'), /^ssh-ed25519 \S+ vmhostd@host-1\n$/)
  assert.match(text, /made .*state\/ssh\/id_ed25519 {2}\(SSH key/)
  const config = parseConfig(readFileSync(at('config.toml'), 'utf8'), {
    path: 'config.toml',
    hostname: 'host-1',
  })
  assert.equal(config.storage.poolDirectory, at('state/pool'))
  assert.equal(config.controller.keyFile, at('tls/server.key'))
  assert.ok(text.includes(`vmhostd doctor --config ${at('config.toml')}\n`), text)
  assert.match(text, /Set network\.guest_ranges in .*config\.toml/)
  assert.match(text, /curl --cacert .*ca\.crt --cert .*controller\.crt --key .*controller\.key/)
  assert.equal(
    readFileSync(at('vmhostctl.toml'), 'utf8').split('\n').slice(1).join('\n'),
    'url = "https://localhost:9000"\nca = "tls/ca.crt"\ncert = "tls/controller.crt"\nkey = "tls/controller.key"\n',
  )
})

const WRONG_NAMES = [
  'bad name',
  '',
  'a_b',
  '-a',
  'a..b',
  'a*.example.net',
  '192.0.2.7/32',
  'fe80::1%eth0',
  'a\n',
  `${'a'.repeat(64)}.net`,
  `${'a.'.repeat(126)}net`,
]

for (const name of WRONG_NAMES) {
  test(`no certificate is made for the name ${JSON.stringify(name)}`, async (t) => {
    const { options, run, at } = machine(t)
    const because = `--san ${JSON.stringify(name)} is neither a host name nor an IP address`
    await assert.rejects(
      run([...options, '--san', 'good.example.net', `--san=${name}`]),
      (error) => error instanceof UsageError && error.message.startsWith(because),
    )
    assert.ok(!existsSync(at('tls')))
  })
}

test('a name with a wildcard, and addresses, are taken', async (t) => {
  const { options, run, certificate } = machine(t)
  const { status } = await run([...options, '--san', '*.example.net', '--san', '2001:db8::7'])
  assert.equal(status, 0)
  assert.ok(certificate('server').checkHost('a.example.net'))
  assert.ok(certificate('server').checkIP('2001:db8::7'))
})

test('the certificates chain to the authority and say what they are for', async (t) => {
  const { options, run, certificate } = machine(t)
  await run([
    ...options,
    '--san',
    'host-1.example.net',
    '--san',
    '192.0.2.7',
    '--common-name',
    'control "a", O=b',
  ])
  const authority = certificate('ca')
  assert.ok(authority.ca && authority.verify(authority.publicKey))
  for (const name of ['server', 'controller', 'node']) {
    const leaf = certificate(name)
    assert.ok(leaf.checkIssued(authority) && leaf.verify(authority.publicKey), name)
    assert.ok(!leaf.ca)
    assert.ok(leaf.validFromDate.getTime() < nowMs && leaf.validToDate.getTime() > nowMs + 800 * 86_400_000)
  }
  for (const name of ['host-1', 'localhost', 'host-1.example.net']) {
    assert.ok(certificate('server').checkHost(name), name)
  }
  for (const address of ['127.0.0.1', '::1', '192.0.2.7'])
    assert.ok(certificate('server').checkIP(address), address)
  assert.equal(certificate('controller').toLegacyObject().subject.CN, 'control "a", O=b')
  const clientAuth = '1.3.6.1.5.5.7.3.2'
  const serverAuth = '1.3.6.1.5.5.7.3.1'
  assert.deepEqual(certificate('controller').keyUsage, [clientAuth])
  assert.deepEqual(certificate('server').keyUsage, [serverAuth])
  assert.deepEqual(certificate('node').keyUsage, [serverAuth, clientAuth])
})

test('a second run keeps every byte', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  const paths = [
    'config.toml',
    'vmhostctl.toml',
    'state/ssh/id_ed25519',
    'state/ssh/id_ed25519.pub',
    ...['ca', 'server', 'controller', 'node'].flatMap((n) => [`tls/${n}.crt`, `tls/${n}.key`]),
  ]
  const before = paths.map((path) => readFileSync(at(path), 'utf8'))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 0, text)
  assert.doesNotMatch(text, /made/)
  assert.deepEqual(
    paths.map((path) => readFileSync(at(path), 'utf8')),
    before,
  )
})

test('a missing certificate is made again from the authority that is there', async (t) => {
  const { at, options, run, certificate } = machine(t)
  await run(options)
  unlinkSync(at('tls/server.crt'))
  unlinkSync(at('tls/server.key'))
  assert.equal((await run(['--config', at('config.toml')])).status, 0)
  assert.ok(certificate('server').verify(certificate('ca').publicKey))
})

test('a name that a kept server certificate lacks is reported, with the way to get it', async (t) => {
  const { at, options, run } = machine(t)
  await run([...options, '--san', '192.0.2.7'])
  const again = ['--config', at('config.toml'), '--san', '192.0.2.7']
  assert.doesNotMatch((await run(again)).text, /warning/)
  const { status, text } = await run([...again, '--san', 'host-1.example.net'])
  assert.equal(status, 0)
  assert.match(
    text,
    /warning .*server\.crt .*does not have host-1\.example\.net: vmhostd certificate renew --san host-1\.example\.net/,
  )
})

/** Makes the write with this number fail after a few bytes, until the returned function is called. */
function failWrite(t: TestContext, number: number): () => boolean {
  const write = fs.writeFileSync
  let count = 0
  t.mock.method(fs, 'writeFileSync', (path: string | number, content: string, options: object) => {
    if (count++ !== number) return write(path, content, options)
    write(path, content.slice(0, 9), options)
    throw new Error('ENOSPC: no space left on device, write')
  })
  syncBuiltinESMExports()
  return () => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
    return count > number
  }
}

test('set-up that cannot write a file leaves no part of it, and the next run makes all that lacks', async (t) => {
  let hasFailed = true
  for (let number = 0; hasFailed; number += 1) {
    const { at, options, run } = machine(t)
    const restore = failWrite(t, number)
    const { status } = await run(options)
    hasFailed = restore()
    assert.equal(status, hasFailed ? 1 : 0, String(number))
    const again = await run(existsSync(at('config.toml')) ? ['--config', at('config.toml')] : options)
    assert.equal(again.status, 0, `${number}: ${again.text}`)
    assert.equal(readFileSync(at('config.toml'), 'utf8').includes('[metrics]'), true)
    assert.match(readFileSync(at('vmhostctl.toml'), 'utf8'), /\nkey = "tls\/controller\.key"\n$/)
    const left = ['.', 'tls'].flatMap((directory) => readdirSync(at(directory)))
    assert.deepEqual(
      left.filter((name) => name.endsWith('.part')),
      [],
    )
    if (!hasFailed) assert.ok(number > 8, 'it writes the configuration, four pairs and the profile')
  }
})

test('an address that alone is listened on is in the certificate of its listener, and in the advice', async (t) => {
  const { at, options, run, certificate } = machine(t)
  await run(options)
  const config = readFileSync(at('config.toml'), 'utf8')
    .replace('#listen_address = "::"', 'listen_address = "192.0.2.7"')
    .replace('#listen_address = "::"', 'listen_address = "[2001:db8::7]"')
  writeFileSync(at('config.toml'), config)
  const again = ['--config', at('config.toml')]
  assert.match((await run(again)).text, /warning .*server\.crt .*renew --san 192\.0\.2\.7/)
  for (const file of ['server.crt', 'server.key', 'node.crt', 'node.key', '../vmhostctl.toml'])
    unlinkSync(at(`tls/${file}`))
  const { status, text } = await run(again)
  assert.equal(status, 0, text)
  assert.ok(certificate('server').checkIP('192.0.2.7'))
  assert.ok(certificate('node').checkIP('2001:db8::7'))
  assert.ok(certificate('server').checkHost('localhost'))
  assert.match(text, /https:\/\/192\.0\.2\.7:9000\/healthz\n.*https:\/\/192\.0\.2\.7:9000\/docs/)
  assert.doesNotMatch(text, /localhost|warning/)
  assert.match(readFileSync(at('vmhostctl.toml'), 'utf8'), /"https:\/\/192\.0\.2\.7:9000"/)
})

test('half a pair is neither kept nor overwritten', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  unlinkSync(at('tls/server.key'))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(text, /server\.crt is there, but .*server\.key is not/)
  assert.ok(!existsSync(at('tls/server.key')))
})

test('an SSH key that cannot be used is named, and nothing is put in its place', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  writeFileSync(at('state/ssh/id_ed25519'), 'no key')
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(text, /id_ed25519 is not an SSH private key: put the right file back/)
  assert.equal(readFileSync(at('state/ssh/id_ed25519'), 'utf8'), 'no key')
})

test('a reader of metrics gets a certificate when the listener for it is enabled', async (t) => {
  const { at, options, run, certificate } = machine(t)
  await run(options)
  assert.ok(!existsSync(at('tls/metrics.crt')))
  const config = readFileSync(at('config.toml'), 'utf8')
  const names = 'enabled = true\ncommon_names = ["prometheus", "other"]'
  writeFileSync(at('config.toml'), config.replace('[metrics]', `[metrics]\n${names}`))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 0, text)
  assert.equal(certificate('metrics').subject, 'CN=prometheus')
  assert.ok(certificate('metrics').verify(certificate('ca').publicKey))
  assert.equal(modeOf(at('tls/metrics.key')), '600')
})

test('if the authority key is elsewhere, the certificates that it must sign are reported as missing', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  for (const file of ['ca.key', 'node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(text, /MISSING .*node\.crt/)
})

test('while an authority is replaced, certificates are signed by the one in its file that fits its key', async (t) => {
  const { at, options, run, certificate } = machine(t)
  await run(options)
  const old = readFileSync(at('tls/ca.crt'), 'utf8')
  const next = await createAuthority('vmhostd authority 2', nowMs)
  writeFileSync(at('tls/ca.crt'), old + next.certificate)
  writeFileSync(at('tls/ca.key'), next.key)
  for (const file of ['server.crt', 'server.key', 'node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 0, text)
  const authority = new X509Certificate(next.certificate)
  for (const name of ['server', 'node']) {
    assert.ok(certificate(name).verify(authority.publicKey), name)
    assert.ok(certificate(name).checkIssued(authority), `${name}: ${certificate(name).issuer}`)
  }
})

test('if the key beside an authority is of another one, the certificates that it must sign are reported as missing', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  writeFileSync(at('tls/ca.key'), (await createAuthority('vmhostd authority 2', nowMs)).key)
  assert.equal((await run(['--config', at('config.toml')])).status, 0)
  for (const file of ['node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(
    text,
    /MISSING .*node\.crt .*its authority cannot sign here, because .*ca\.key is not the key of it/,
  )
  assert.ok(!existsSync(at('tls/node.crt')))
})

test('the certificate of the node is signed by an authority of nodes if the configuration names one', async (t) => {
  const { at, options, run, certificate } = machine(t)
  await run(options)
  for (const file of ['node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
  const config = readFileSync(at('config.toml'), 'utf8')
  const nodes = `[coordination]\nca_file = "${at('nodes/nodes-ca.crt')}"`
  writeFileSync(at('config.toml'), config.replace('[coordination]', nodes))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 0, text)
  assert.match(text, /made .*nodes-ca\.crt {2}\(certificate authority of nodes, with nodes-ca\.key\)/)
  assert.equal(modeOf(at('nodes')), '700')
  assert.equal(modeOf(at('nodes/nodes-ca.key')), '600')
  const authority = new X509Certificate(readFileSync(at('nodes/nodes-ca.crt')))
  assert.ok(certificate('node').verify(authority.publicKey))
  assert.ok(!certificate('node').verify(certificate('ca').publicKey))
})

test('a second host with the pair of the authority of nodes gets a certificate from it, and needs its key no more', async (t) => {
  const [first, second] = [machine(t), machine(t)]
  for (const { at, options, run } of [first, second]) {
    await run(options)
    for (const file of ['node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
    const config = readFileSync(at('config.toml'), 'utf8')
    const nodes = `[coordination]\nca_file = "${at('tls/nodes-ca.crt')}"`
    writeFileSync(at('config.toml'), config.replace('[coordination]', nodes))
  }
  assert.equal((await first.run(['--config', first.at('config.toml')])).status, 0)
  for (const file of ['nodes-ca.crt', 'nodes-ca.key'])
    copyFileSync(first.at(`tls/${file}`), second.at(`tls/${file}`))
  const again = ['--config', second.at('config.toml')]
  assert.equal((await second.run([...again, '--san', '192.0.2.7'])).status, 0)
  const { publicKey } = first.certificate('nodes-ca')
  for (const host of [first, second]) assert.ok(host.certificate('node').verify(publicKey))
  assert.ok(second.certificate('node').checkIP('192.0.2.7'))
  unlinkSync(second.at('tls/nodes-ca.key'))
  const { status, text } = await second.run(again)
  assert.equal(status, 0, text)
  assert.match(text, /kept .*nodes-ca\.crt {2}\(an authority whose key is elsewhere\)/)
})

test('a host without the coordination listener needs no certificate of a node', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  for (const file of ['ca.key', 'node.crt', 'node.key']) unlinkSync(at(`tls/${file}`))
  const config = readFileSync(at('config.toml'), 'utf8')
  writeFileSync(at('config.toml'), config.replace('#enabled = true', 'enabled = false'))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 0, text)
  assert.doesNotMatch(text, /node\.crt|port 9001/)
})

test('a configuration that is there is kept, and an option that would change it is refused', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  const { status, text } = await run(['--config', at('config.toml'), '--host-id', 'other'])
  assert.equal(status, 1)
  assert.match(text, /config\.toml is there already: set host\.id in it/)
})

test('a configuration that cannot be read stops set-up, with the reason', async (t) => {
  const { at, run } = machine(t)
  mkdirSync(at('config.toml'))
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(text, /^vmhostd setup: \S+config\.toml cannot be read: EISDIR: /)
})

test('a wrong configuration stops set-up before it makes anything', async (t) => {
  const { at, run } = machine(t)
  writeFileSync(at('config.toml'), 'port = 1')
  const { status, text } = await run(['--config', at('config.toml')])
  assert.equal(status, 1)
  assert.match(text, /port is not known here/)
  assert.ok(!existsSync(at('state')))
})

test('what is odd about the pool or a directory is a warning, not a failure', async (t) => {
  const { at, options, run } = machine(t)
  await run(options)
  chmodSync(at('state'), 0o770)
  const { status, text } = await run(['--config', at('config.toml')], false)
  assert.equal(status, 0)
  assert.match(text, /warning .*pool {2}\(its file system cannot share blocks/)
  assert.match(text, /changed .*mode 0770 to 0771/)
  assert.match(text, /warning .*chmod go-w/)
})

test('help teaches, and a wrong option does nothing', async (t) => {
  const { run, at } = machine(t)
  const help = await run(['--help'])
  assert.equal(help.status, 0)
  assert.match(help.text, /--san NAME/)
  await assert.rejects(run(['--config', at('config.toml'), '--sann', 'x']), /--sann/)
  assert.ok(!existsSync(at('config.toml')))
})
