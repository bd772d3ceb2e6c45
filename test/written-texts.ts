/**
 * Decides whether source files can write a text. It reads their string and template literals, and tries to compose the
 * text from them. So a changed word in a message makes an example of that message fail, without running the code on
 * a host that is broken in just that way.
 *
 * A placeholder stands for another literal of the same files, for a value without spaces (or a list of such values), or
 * for one of the quoted texts of other programs. Parts may be joined by `: `, as `errorChain` joins causes.
 */
import ts from 'typescript'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const root = resolve(import.meta.dirname, '..')

/** A literal text, or a placeholder: one of some texts, or anything. */
type Part = string | readonly Text[] | 'anything'[]
type Text = readonly Part[]

const ANYTHING: Part = ['anything']

/** How many literals may stand inside each other. */
const DEPTH_MAX = 3

const literals = new Map<string, readonly Text[]>()

/** Returns the texts that a source file has; `path` is relative to the checkout. */
export function textsOf(path: string): readonly Text[] {
  const known = literals.get(path)
  if (known !== undefined) return known
  const found: Text[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) return
    const text = isText(node) ? textOf(node) : undefined
    // A text without a letter joins others; it says nothing by itself.
    if (text?.some((part) => typeof part === 'string' && /[a-z]/i.test(part)) === true) found.push(text)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile(path, readFileSync(resolve(root, path), 'utf8'), ts.ScriptTarget.Latest))
  literals.set(path, found)
  return found
}

const isText = (node: ts.Node): node is ts.Expression =>
  ts.isStringLiteralLike(node) || ts.isTemplateExpression(node) || isSum(node)

const isSum = (node: ts.Node): node is ts.BinaryExpression =>
  ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken

function textOf(node: ts.Expression): Text {
  if (ts.isStringLiteralLike(node)) return [node.text]
  if (ts.isParenthesizedExpression(node)) return textOf(node.expression)
  if (isSum(node)) return [...textOf(node.left), ...textOf(node.right)]
  if (ts.isConditionalExpression(node)) return [[textOf(node.whenTrue), textOf(node.whenFalse)]]
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken)
    return [[textOf(node.left), textOf(node.right)]]
  if (!ts.isTemplateExpression(node)) return [ANYTHING]
  const spans = node.templateSpans.flatMap(({ expression, literal }) => [...textOf(expression), literal.text])
  return [node.head.text, ...spans]
}

/** Returns whether the files can write `text`; `quotes` are texts of other programs in it. */
export function canWrite(text: string, paths: readonly string[], quotes: readonly string[] = []): boolean {
  const written: readonly Text[] = [...paths.flatMap(textsOf), ...quotes.map((quote) => [quote])]
  const matcher = new Matcher(text, written)
  const seen = new Set<number>()
  const from = (start: number): boolean => {
    if (seen.has(start)) return false
    seen.add(start)
    const ends = matcher.endsOfAny([...written, [ANYTHING]], start, 0)
    return (
      ends.has(text.length) || [...ends].some((end) => JOINTS.has(text.slice(end, end + 2)) && from(end + 2))
    )
  }
  return from(0)
}

/** How parts of a message are joined: causes by `errorChain`, and a remedy after what is wrong. */
const JOINTS: ReadonlySet<string> = new Set([': ', '; '])

class Matcher {
  readonly #whole: string
  readonly #written: readonly Text[]
  readonly #known = new Map<string, ReadonlySet<number>>()

  constructor(whole: string, written: readonly Text[]) {
    this.#whole = whole
    this.#written = written
  }

  /** Returns where one of the texts can end if it begins at `start`. */
  endsOfAny(texts: readonly Text[], start: number, depth: number): ReadonlySet<number> {
    return new Set(texts.flatMap((text) => [...this.#endsOf(text, start, depth)]))
  }

  #endsOf(text: Text, start: number, depth: number): ReadonlySet<number> {
    let ends: ReadonlySet<number> = new Set([start])
    for (const part of text) {
      ends = new Set([...ends].flatMap((end) => [...this.#endsOfPart(part, end, depth)]))
      if (ends.size === 0) break
    }
    return ends
  }

  #endsOfPart(part: Part, start: number, depth: number): ReadonlySet<number> {
    if (typeof part === 'string')
      return this.#whole.startsWith(part, start) ? new Set([start + part.length]) : new Set()
    if (part[0] === 'anything') return this.#endsOfPlaceholder(start, depth)
    return this.endsOfAny(part as readonly Text[], start, depth)
  }

  #endsOfPlaceholder(start: number, depth: number): ReadonlySet<number> {
    const key = `${start} ${depth}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const [value = ''] = /^\S*(?:(?<=,) \S+)*/.exec(this.#whole.slice(start)) ?? []
    const ends = new Set(Array.from(value, (_character, index) => start + index + 1))
    const inner = depth < DEPTH_MAX ? this.endsOfAny(this.#written, start, depth + 1) : new Set<number>()
    const all = ends.union(inner)
    this.#known.set(key, all)
    return all
  }
}
