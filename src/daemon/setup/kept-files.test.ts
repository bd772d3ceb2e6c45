import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { machine } from '../../../test/setup-machine.ts'
import type { TestContext } from 'node:test'

/** Runs set-up, and again after changes of lines of the configuration. */
async function stage(t: TestContext) {
  const { at, options, run } = machine(t)
  await run(options)
  const edit = (...changes: readonly (readonly [before: string, after: string])[]): void => {
    const text = changes.reduce(
      (config, [before, after]) => config.replace(before, after),
      readFileSync(at('config.toml'), 'utf8'),
    )
    writeFileSync(at('config.toml'), text)
  }
  const again = () => run(['--config', at('config.toml')])
  return { at, edit, again }
}

const URL_LINE = /^url.*$/m

test('a kept certificate is reported with the name that it has, and with what to do if another one is asked for', async (t) => {
  const { at, edit, again } = await stage(t)
  assert.doesNotMatch((await again()).text, /warning/)
  edit(
    ['#common_name = "vmhost-controller"', 'common_name = "ops-controller"'],
    ['id = "host-1"', 'id = "host-2"'],
  )
  const { status, text } = await again()
  assert.equal(status, 0, text)
  assert.match(text, /kept .*controller\.crt {2}\(certificate of vmhost-controller, for a client\)/)
  assert.match(
    text,
    /warning .*controller\.crt {2}\(its common name is vmhost-controller, and the configuration asks for ops-controller: move it and its key away, and run this again with the key of its authority in place; or have that authority sign another\)/,
  )
  assert.match(text, /warning .*node\.crt {2}\(its common name is host-1, and .* host-2: move it/)
  // Clients know a server by its other names.
  assert.doesNotMatch(text, /warning .*server\.crt/)
  for (const file of ['controller.crt', 'controller.key', 'node.crt', 'node.key'])
    unlinkSync(at(`tls/${file}`))
  const advised = await again()
  assert.match(advised.text, /made .*controller\.crt {2}\(certificate of ops-controller/)
  assert.doesNotMatch(advised.text, /warning/)
})

test('certificates that an authority which was made now did not sign are reported', async (t) => {
  const { at, again } = await stage(t)
  for (const file of ['ca.crt', 'ca.key']) unlinkSync(at(`tls/${file}`))
  const { text } = await again()
  assert.match(text, /made .*ca\.crt/)
  for (const name of ['controller', 'node'])
    assert.match(
      text,
      new RegExp(
        `warning .*${name}\\.crt {2}\\(the authority that was made now did not sign it.* renew --all`,
      ),
    )
  assert.doesNotMatch(text, /warning .*server\.crt/)
  assert.doesNotMatch((await again()).text, /made/)
})

test('a kept certificate of a reader of metrics may have any name that is admitted', async (t) => {
  const { edit, again } = await stage(t)
  edit(['[metrics]', '[metrics]\nenabled = true\ncommon_names = ["prometheus"]'])
  await again()
  edit(['["prometheus"]', '["other", "prometheus"]'])
  assert.doesNotMatch((await again()).text, /warning/)
  edit(['["other", "prometheus"]', '["other", "third"]'])
  assert.match(
    (await again()).text,
    /warning .*metrics\.crt {2}\(its common name is prometheus, and .* other or third/,
  )
})

test('a kept certificate without a use that it needs is reported, and so is a file that is not one', async (t) => {
  const { at, again } = await stage(t)
  for (const ending of ['crt', 'key']) {
    copyFileSync(at(`tls/server.${ending}`), at(`tls/node.${ending}`))
    copyFileSync(at(`tls/controller.${ending}`), at(`tls/server.${ending}`))
  }
  writeFileSync(at('tls/controller.crt'), 'no certificate')
  const { status, text } = await again()
  assert.equal(status, 0, text)
  assert.match(text, /kept .*node\.crt {2}\(certificate of host-1, for a server\)/)
  assert.match(text, /warning .*node\.crt {2}\(it does not have the usage clientAuth: move it/)
  assert.match(text, /warning .*server\.crt {2}\(it does not have the usage serverAuth: move it/)
  assert.match(text, /warning .*controller\.crt {2}\(it is not a certificate: put the right file back\)/)
  writeFileSync(at('tls/server.crt'), 'no certificate')
  const other = await again()
  assert.match(other.text, /warning .*server\.crt {2}\(it is not a certificate/)
  writeFileSync(at('tls/ca.crt'), '')
  assert.match((await again()).text, /warning .*ca\.crt {2}\(it is not a certificate/)
})

test('a kept certificate whose key is another one is reported, and so is a file that is not a key', async (t) => {
  const { at, again } = await stage(t)
  copyFileSync(at('tls/controller.key'), at('tls/server.key'))
  writeFileSync(at('tls/controller.key'), 'not a key')
  writeFileSync(at('tls/metrics.key'), '-----BEGIN ENCRYPTED PRIVATE KEY-----\n')
  const { status, text } = await again()
  assert.equal(status, 0, text)
  assert.match(
    text,
    /warning .*server\.crt {2}\(\S+server\.key is not its key: put the right one back; or move both away and run vmhostd setup, or run vmhostd certificate renew --all, with the key of its authority in place\)/,
  )
  assert.match(
    text,
    /warning .*controller\.crt {2}\(\S+controller\.key is not a private key \(PEM\) without a passphrase: put the right one /,
  )
  assert.doesNotMatch(text, /warning .*metrics\.crt/, 'a key with a passphrase cannot be compared')
})

test('a kept profile whose url does not lead to this host is reported', async (t) => {
  const { at, edit, again } = await stage(t)
  edit(['\n#port = 9000', '\nport = 9100'])
  const changed =
    /warning .*vmhostctl\.toml {2}\(its url is https:\/\/localhost:9000, and the configuration gives https:\/\/localhost:9100: /
  assert.match((await again()).text, changed)
  const write = (url: string): void => {
    const profile = readFileSync(at('vmhostctl.toml'), 'utf8')
    writeFileSync(at('vmhostctl.toml'), profile.replace(URL_LINE, url))
  }
  for (const url of [
    'https://localhost:9100/',
    'https://host-1.example.net:9100',
    'https://192.0.2.7:9100',
  ]) {
    write(`url = "${url}"`)
    assert.doesNotMatch((await again()).text, /warning/, url)
  }
  edit(['#listen_address = "::"', 'listen_address = "127.0.0.1"'])
  write('url = "https://127.0.0.1:9100"')
  assert.doesNotMatch((await again()).text, /warning/)
  write('url = "https://192.0.2.7:9100"')
  edit(['listen_address = "127.0.0.1"', 'listen_address = "::ffff:192.0.2.8"'])
  assert.match(
    (await again()).text,
    /warning .*vmhostctl\.toml .*192\.0\.2\.7:9100, and .*192\.0\.2\.8\]:9100: /,
  )
  write('url = "https://[::ffff:192.0.2.8]:9100"')
  assert.doesNotMatch((await again()).text, /warning .*vmhostctl/)
  for (const url of ['url = 7', 'url = "host-1"', 'url']) {
    write(url)
    assert.match(
      (await again()).text,
      /warning .*vmhostctl\.toml {2}\(it has no url: write url = "https:/,
      url,
    )
  }
})
