import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  errorCodeIn,
  hidesContent,
  judgeAnswer,
  looksLikeMd5OfParts,
  parseEtag,
  parseRetryAfter,
  renderCompletion,
  rootElementOf,
} from './judge-answer.ts'

const kindOf = (status: number, code?: string): string => judgeAnswer({ status, code }).kind

test('a refusal of the signature wants a fresh URL', () => {
  assert.equal(kindOf(401), 'expired')
  assert.equal(kindOf(403, 'AccessDenied'), 'expired')
  assert.equal(kindOf(403, 'SlowDown'), 'expired')
  assert.equal(kindOf(400, 'ExpiredToken'), 'expired')
})

test('only an upload that the store does not know is gone', () => {
  assert.equal(kindOf(404, 'NoSuchUpload'), 'gone')
  assert.equal(kindOf(404, 'NoSuchBucket'), 'refused')
  assert.equal(kindOf(404), 'refused')
  assert.equal(kindOf(200, 'NoSuchUpload'), 'gone')
})

test('a temporary refusal is tried again, and a lasting one is not', () => {
  for (const status of [408, 425, 429, 500, 502, 503, 504, 507, 522])
    assert.equal(kindOf(status), 'busy', `${status}`)
  for (const status of [400, 405, 411, 412, 413, 415, 501, 505])
    assert.equal(kindOf(status), 'refused', `${status}`)
  for (const code of ['InvalidDigest', 'RequestTimeout', 'IncompleteBody'])
    assert.equal(kindOf(400, code), 'busy', code)
  for (const code of ['InvalidPart', 'InvalidPartOrder', 'EntityTooSmall'])
    assert.equal(kindOf(400, code), 'refused', code)
  assert.equal(kindOf(409, 'OperationAborted'), 'busy')
  assert.equal(kindOf(301, 'PermanentRedirect'), 'refused')
})

test('a body that arrived with another digest is damaged, and may be sent again', () => {
  assert.equal(kindOf(400, 'BadDigest'), 'damaged')
})

test('an ETag says nothing about content that is encrypted with a key of KMS or of the client', () => {
  const encryption = 'x-amz-server-side-encryption'
  for (const headers of [
    { [encryption]: 'aws:kms' },
    { [encryption]: 'aws:kms:dsse' },
    { [`${encryption}-customer-algorithm`]: 'AES256' },
  ])
    assert.ok(hidesContent(headers), JSON.stringify(headers))
  for (const headers of [{}, { [encryption]: 'AES256' }, { [encryption]: 'aws:kmsx' }])
    assert.ok(!hidesContent(headers), JSON.stringify(headers))
})

test('the ETag of an object of parts is an MD5 and how many there are', () => {
  const md5 = '0123456789abcdef0123456789ABCDEF'
  assert.ok(looksLikeMd5OfParts(`${md5}-1`) && looksLikeMd5OfParts(`${md5}-10000`))
  for (const none of [
    md5,
    `${md5}-0`,
    `${md5}-01`,
    `${md5}-`,
    `${md5}-100000`,
    `x${md5}-1`,
    `${md5.slice(1)}g-1`,
  ])
    assert.ok(!looksLikeMd5OfParts(none), none)
})

test('an error in the body of a success is an error, by its code', () => {
  assert.equal(kindOf(200, 'InternalError'), 'busy')
  assert.equal(kindOf(200, 'InvalidPart'), 'refused')
  assert.equal(kindOf(200, 'SomethingNew'), 'busy')
})

test('the words have the status and the code, and a wait only if trying again helps', () => {
  assert.deepEqual(judgeAnswer({ status: 503, code: 'SlowDown', retryAfterMs: 7000 }), {
    kind: 'busy',
    because: 'it answered 503 (SlowDown)',
    retryAfterMs: 7000,
  })
  assert.deepEqual(judgeAnswer({ status: 413, retryAfterMs: 7000 }), {
    kind: 'refused',
    because: 'it answered 413',
  })
})

test('the root of an answer is found behind white space, declarations and comments', () => {
  assert.equal(rootElementOf('<Error/>'), 'Error')
  assert.equal(rootElementOf('\uFEFF<?xml version="1.0"?>\n \n<!-- a-b --><Error>'), 'Error')
  assert.equal(
    rootElementOf('   \n<s3:CompleteMultipartUploadResult xmlns:s3="x">'),
    'CompleteMultipartUploadResult',
  )
  for (const none of [
    '',
    '   ',
    '<html',
    'Error',
    '{"a":"<Error>"}',
    '<!DOCTYPE html><Error>',
    '<Errors',
    '<!-- <Error> ',
  ])
    assert.equal(rootElementOf(none), undefined, none)
})

test('a long answer that is not XML is judged at once', () => {
  const nasty = ['<?', '<!--', '<!-', ' ', '-', '<!---'].map((piece) =>
    piece.repeat((64 * 1024) / piece.length),
  )
  for (const text of nasty) assert.equal(rootElementOf(text), undefined)
  assert.equal(rootElementOf(`<!--${'-a'.repeat(30_000)}`), undefined)
})

test('only what looks like a code is taken from an error document', () => {
  const code = (inside: string): string | undefined =>
    errorCodeIn(
      `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${inside}</Code><Message>x</Message></Error>`,
    )
  assert.equal(code('NoSuchUpload'), 'NoSuchUpload')
  assert.equal(code(' Slow.Down '), 'Slow.Down')
  for (const none of [
    '',
    'a b',
    '<b/>',
    'x'.repeat(65),
    'https://store.example.net/?X-Amz-Signature=1',
    '&amp;',
  ])
    assert.equal(code(none), undefined, none)
  assert.equal(errorCodeIn('<html><Code>NoSuchUpload</Code></html>'), undefined)
})

test('Retry-After is seconds or a date, and nothing else', () => {
  const nowMs = Date.parse('2030-01-01T00:00:00Z')
  assert.equal(parseRetryAfter('120', nowMs), 120_000)
  assert.equal(parseRetryAfter('Tue, 01 Jan 2030 00:00:30 GMT', nowMs), 30_000)
  assert.equal(parseRetryAfter('Mon, 31 Dec 2029 23:59:30 GMT', nowMs), 0)
  for (const none of [
    undefined,
    '',
    '-1',
    '1.5',
    'soon',
    '99999999999',
    '2030-01-01',
    'Tue, 99 Foo 2030 00:00:30 GMT',
  ])
    assert.equal(parseRetryAfter(none, nowMs), undefined, `${none}`)
})

test('an ETag loses its quotes, and a value that cannot be an ETag is refused', () => {
  assert.equal(parseEtag('"0123"'), '0123')
  assert.equal(parseEtag('0123-4'), '0123-4')
  assert.equal(parseEtag('W/"0123"'), '0123')
  for (const none of [undefined, '', '""', 'a b', 'a"b', 'x'.repeat(257), 'ä'])
    assert.equal(parseEtag(none), undefined, `${none}`)
})

test('a completion names the parts in order, and no ETag breaks out of it', () => {
  assert.equal(
    renderCompletion([
      { number: 1, etag: 'aa' },
      { number: 2, etag: '<b>&' },
    ]),
    '<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
      '<Part><PartNumber>1</PartNumber><ETag>&quot;aa&quot;</ETag></Part>' +
      '<Part><PartNumber>2</PartNumber><ETag>&quot;&lt;b&gt;&amp;&quot;</ETag></Part>' +
      '</CompleteMultipartUpload>',
  )
})
