/** Runs the script that the page of snapshots gives to controllers. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { resolve } from 'node:path'
import { test } from 'node:test'
import type { AddressInfo } from 'node:net'

const checkout = resolve(import.meta.dirname, '..')
const page = readFileSync(resolve(checkout, 'docs/snapshots.md'), 'utf8')
const [, script = ''] = /```js\n(\/\/ presign\.mjs [^]*?)```/.exec(page) ?? []

const BEGUN = '<InitiateMultipartUploadResult><UploadId>id-1</UploadId></InitiateMultipartUploadResult>'

/** Runs the script with these arguments. Returns what it printed. */
function run(
  endpoint: string,
  args: readonly string[],
): Promise<{ readonly out: string; readonly err: string }> {
  const env = {
    PATH: process.env['PATH'],
    BUCKET: 'images',
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'key',
    AWS_SECRET_ACCESS_KEY: 'secret',
  }
  return new Promise((done, failed) => {
    const command = ['--input-type=module', '-', ...args]
    const child = execFile(process.execPath, command, { cwd: checkout, env }, (error, out, err) => {
      if (error === null) done({ out, err })
      else failed(error)
    })
    child.stdin?.end(script)
  })
}

test('the documented script begins an upload once, says its id, and signs fresh URLs for it', async (t) => {
  const asked: string[] = []
  const store = createServer((request, response) => {
    asked.push(`${request.method} ${new URL(request.url ?? '', 'http://store').pathname}`)
    response.end(BEGUN)
  })
  t.after(() => store.close())
  await new Promise<void>((listening) => store.listen(0, '127.0.0.1', listening))
  const endpoint = `http://127.0.0.1:${(store.address() as AddressInfo).port}`
  const first = await run(endpoint, ['nightly/web-1', '64', '2'])
  const again = await run(endpoint, ['nightly/web-1', '64', '2', 'id-1'])
  assert.deepEqual(asked, ['POST /images/nightly/web-1'])
  for (const { out, err } of [first, again]) {
    assert.equal(err, 'upload id-1\n')
    const { part_size_mib: size, part_urls: parts, complete_url: complete, head_url: head } = JSON.parse(out)
    assert.deepEqual([size, parts.length], [64, 2])
    const queries = [...parts, complete].map((url: string) => new URL(url).searchParams)
    assert.deepEqual(
      queries.map((query) => [query.get('partNumber'), query.get('uploadId')]),
      [
        ['1', 'id-1'],
        ['2', 'id-1'],
        [null, 'id-1'],
      ],
    )
    assert.equal(new URL(head).pathname, '/images/nightly/web-1')
  }
})
