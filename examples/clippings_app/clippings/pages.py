"""The page of a person's clippings."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.views.decorators.http import require_POST

from apps.web.shell import page, principal_of, reader_view
from clippings.models import Clipping

SHOWN = 200


@reader_view
def clippings(request: HttpRequest) -> HttpResponse:
    rows = Clipping.objects.visible_to(principal_of(request))[:SHOWN]
    return page(request, "clippings/clippings.html", clippings=rows)


@require_POST
@login_required
def delete(request: HttpRequest, number: int) -> HttpResponse:
    get_object_or_404(Clipping.objects.visible_to(principal_of(request)), pk=number).delete()
    return redirect("web:clippings")


urlpatterns = [
    path("clippings", clippings, name="clippings"),
    path("clippings/<int:number>/delete", delete, name="delete-clipping"),
]
