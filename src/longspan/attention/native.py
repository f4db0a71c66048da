def unsupported(request):
    return ["not yet"]
def run(request):
    raise SystemExit
