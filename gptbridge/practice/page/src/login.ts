// The practice site's sign-in page: one button that ends the scenario `signed-out`.
const button = document.getElementById("sign-in") as HTMLButtonElement;
button.addEventListener("click", async () => {
  button.disabled = true;
  try {
    const answer = await fetch("/practice/scenario", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: "signed-out", on: false }),
    });
    if (!answer.ok) throw new Error(`the site answered ${answer.status}`);
    location.assign("/");
  } catch (error) {
    document.getElementById("sign-in-error")!.textContent = `Could not sign in: ${(error as Error).message}`;
    button.disabled = false;
  }
});
