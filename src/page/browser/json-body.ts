/** Reads the body of an answer as JSON; undefined if it is something else. Throws if the body does not come whole. */
export async function jsonBody(answer: Response): Promise<unknown> {
  try {
    return await answer.json()
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
