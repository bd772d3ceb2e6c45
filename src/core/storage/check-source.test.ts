import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkRedirect, checkSource } from './check-source.ts'

const strict = { allowHttp: false, allowFile: false }
const open = { allowHttp: true, allowFile: true }

const refusal = (text: string, policy = open): string => {
  const checked = checkSource(text, policy)
  assert.ok(!checked.ok, `${text} is taken`)
  return checked.error
}

test('https: is taken everywhere', () => {
  const checked = checkSource('https://images.example.org/a.raw?X-Signature=s', strict)
  assert.ok(checked.ok && checked.value.kind === 'remote')
})

test('http: and file: are taken only where they are configured', () => {
  assert.match(refusal('http://images.example.org/a', strict), /not allowed/)
  assert.match(refusal('file:///srv/images/a', strict), /no local image directory/)
  const [http, file] = ['http://images.example.org/a', 'file:///srv/images/a'].map((url) =>
    checkSource(url, open),
  )
  assert.ok(http?.ok && http.value.kind === 'remote')
  assert.ok(file?.ok && file.value.kind === 'local')
})

for (const url of [
  'ftp://example.org/a',
  'data:,a',
  'a.raw',
  '',
  '//example.org/a',
  'file://host.example.org/a',
]) {
  test(`${JSON.stringify(url)} is no source`, () => assert.notEqual(refusal(url), ''))
}

test('a refusal does not repeat the URL', () => {
  for (const url of ['ftp://u:secret@example.org/a?secret', 'https://[secret', 'file://secret/a']) {
    assert.doesNotMatch(refusal(url), /secret/)
  }
})

test('a redirect is followed on the same terms', () => {
  const from = new URL('https://images.example.org/a')
  const target = checkRedirect(from, '/b?x=1', strict)
  assert.ok(target.ok && target.value.href === 'https://images.example.org/b?x=1')
})

test('a redirect never leads out of TLS or into the file system', () => {
  const from = new URL('https://images.example.org/a')
  assert.ok(!checkRedirect(from, 'http://images.example.org/a', open).ok)
  assert.ok(!checkRedirect(from, 'file:///etc/shadow', open).ok)
  assert.ok(!checkRedirect(new URL('http://images.example.org/a'), 'file:///etc/shadow', open).ok)
  assert.ok(checkRedirect(new URL('http://images.example.org/a'), 'https://images.example.org/a', open).ok)
})
