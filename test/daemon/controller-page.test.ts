/** Sends the requests of docs/controller.md to a daemon, in their order. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { makePki, startControllerHost } from './support/controller-host.ts'
import type { Call, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const page = readFileSync(new URL('../../docs/controller.md', import.meta.url), 'utf8')
const scripts = [...page.matchAll(/^```sh\n(?<script>.*?)^```$/gms)].map(
  ({ groups }) => groups?.['script'] ?? '',
)
/** The files that the page writes with `cat >NAME <<'END'`. */
const files = new Map(
  scripts.flatMap((script) =>
    [...script.matchAll(/^cat >(?<name>\S+) <<'END'\n(?<text>.*?)^END$/gms)].map(
      ({ groups }) => [groups?.['name'], groups?.['text']] as const,
    ),
  ),
)

/** Requests that answer only when something changes, that never end, or that are for a further page. */
const LEFT_OUT = /Prefer: wait=|--no-buffer|\$cursor/

/** Returns the request of one call of `api`, the page's function around curl. */
function parse(command: string, etag: string): Call {
  const path = /\$H(?<path>\/[^\s"'|]*)/.exec(command)?.groups?.['path']
  assert.ok(path !== undefined, command)
  const given = / -d (?:'(?<text>[^']*)'|@(?<file>\S+))/.exec(command)?.groups
  const body = given?.['text'] ?? files.get(given?.['file'])
  return {
    method: / -X (?<method>\S+)/.exec(command)?.groups?.['method'] ?? 'GET',
    path,
    ...(body === undefined ? {} : { body }),
    headers: command.includes('If-Match: $etag') ? { 'if-match': etag } : {},
  }
}

test('the daemon takes each request of the page for authors of controllers', async (t) => {
  const host = await startControllerHost(t, pki)
  const commands = scripts
    .flatMap((script) => script.replaceAll('\\\n', ' ').split('\n'))
    .map((line) => line.replace(/ \| .*/, ''))
    .filter((line) => /\bapi .*\$H\//.test(line) && !LEFT_OUT.test(line))
  assert.ok(commands.length > 8, 'the page has requests')
  for (const command of commands) {
    const { headers } = await host.call({ path: '/v1/vms/web-1' })
    const { status, text, json } = await host.call(parse(command, String(headers.etag)))
    // The host is not reconciled here, so the VM is never seen to be stopped.
    assert.ok(status < 300 || json.code === 'vm_not_stopped', `${command}\n${status} ${text}`)
  }
})
